//! What to tell Azure's own tools, so that they find a local cluster.

use std::path::Path;

use uuid::Uuid;

/// Lines to copy. `address`: of a node's HTTP; `id`: the cluster's, which is the subscription's and the tenant's too.
pub fn lines(address: &str, id: &str, authority: &Path, has_secret: bool) -> Vec<String> {
    let id = Uuid::parse_str(id).unwrap_or_default();
    let port = address.rsplit_once(':').map_or("", |(_, port)| port);
    let base = format!("https://localhost:{port}");
    let authority = authority.display();
    let password = if has_secret { "\"$MAYFLY_SECRET\"" } else { "any" };
    vec![
        format!("\nAzure's tools: subscription and tenant {id}, Resource Manager {base}"),
        format!(
            "export REQUESTS_CA_BUNDLE={authority} NODE_EXTRA_CA_CERTS={authority} SSL_CERT_FILE={authority}"
        ),
        format!("az cloud register --name mayfly --endpoint-resource-manager {base}"),
        "az cloud set --name mayfly && az config set core.instance_discovery=false".to_owned(),
        format!(
            "az login --service-principal --username RootManageSharedAccessKey --password {password} --tenant {id}"
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_told_an_address_that_the_certificate_is_good_for() {
        let id = "00112233445566778899aabbccddeeff";
        for (has_secret, password) in [(true, "\"$MAYFLY_SECRET\""), (false, "any")] {
            let lines = lines("127.0.0.1:5300", id, Path::new("/a.pem"), has_secret).join("\n");
            assert!(
                lines.contains("--endpoint-resource-manager https://localhost:5300\n"),
                "{lines}"
            );
            let login =
                format!("--password {password} --tenant 00112233-4455-6677-8899-aabbccddeeff");
            assert!(lines.contains(&login), "{lines}");
        }
    }
}
