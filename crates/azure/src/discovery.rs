//! What clients ask before they have a token: where everything is, and how tokens are to be had.

use axum::Json;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::authority::MANAGEMENT;

/// Of Azure's environments as its tools call them.
const CLOUD: &str = "Mayfly";
/// From which version on there is one environment at an address, and before that a list.
const ONE_FROM: &str = "2022-01-01";
/// Up to which version there was less to be said.
const SHORT_UP_TO: &str = "2015-01-01";

/// What is where, as `az cloud register` and Terraform ask. `base`: `https://` and the host that was asked.
pub(crate) fn metadata(base: &str, tenant: Uuid, api_version: &str) -> Response {
    let login = login(base, tenant);
    if api_version <= SHORT_UP_TO {
        let short = json!({
            "galleryEndpoint": base,
            "graphEndpoint": base,
            "portalEndpoint": base,
            "authentication": login,
        });
        return Json(short).into_response();
    }
    let cloud = cloud(base, tenant);
    match api_version >= ONE_FROM {
        true => Json(cloud).into_response(),
        false => Json(json!([cloud])).into_response(),
    }
}

fn login(base: &str, tenant: Uuid) -> Value {
    let audiences = [format!("{MANAGEMENT}/"), format!("{base}/")];
    json!({
        "loginEndpoint": format!("{base}/"),
        "audiences": audiences,
        "tenant": tenant.to_string(),
        "identityProvider": "AAD",
    })
}

/// This cluster as one of Azure's environments.
pub(crate) fn cloud(base: &str, tenant: Uuid) -> Value {
    json!({
        "name": CLOUD,
        "resourceManager": format!("{base}/"),
        "portal": base,
        "gallery": base,
        "graph": base,
        "graphAudience": base,
        "microsoftGraphResourceId": format!("{base}/"),
        "authentication": login(base, tenant),
        "media": base,
        "batch": base,
        "sqlManagement": base,
        "vmImageAliasDoc": base,
        "activeDirectoryDataLake": base,
        "suffixes": {"servicebusEndpointSuffix": host(base)},
    })
}

/// As MSAL asks any authority that it does not know.
pub(crate) fn instances(base: &str, tenant: Uuid) -> Response {
    let host = authority_host(base);
    let known = json!({"preferred_network": host, "preferred_cache": host, "aliases": [host]});
    let told = json!({
        "tenant_discovery_endpoint": format!("{base}/{tenant}/v2.0/.well-known/openid-configuration"),
        "api-version": "1.1",
        "metadata": [known],
    });
    Json(told).into_response()
}

/// The document of OpenID Connect Discovery, with what RFC 8414 has beside.
pub(crate) fn configuration(base: &str, tenant: Uuid, is_v2: bool) -> Response {
    let (version, of_path) = if is_v2 { ("v2.0", "v2.0/") } else { ("", "") };
    let told = json!({
        "issuer": format!("{base}/{tenant}/{version}"),
        "token_endpoint": format!("{base}/{tenant}/oauth2/{of_path}token"),
        "authorization_endpoint": format!("{base}/{tenant}/oauth2/{of_path}authorize"),
        "device_authorization_endpoint": format!("{base}/{tenant}/oauth2/{of_path}devicecode"),
        "jwks_uri": format!("{base}/{tenant}/discovery/v2.0/keys"),
        "grant_types_supported": ["client_credentials"],
        "token_endpoint_auth_methods_supported": ["client_secret_post", "client_secret_basic"],
        "response_types_supported": ["token"],
        "response_modes_supported": ["query"],
        "subject_types_supported": ["pairwise"],
        "id_token_signing_alg_values_supported": ["ES256"],
        "scopes_supported": [],
        "claims_supported": ["sub", "iss", "aud", "exp", "iat", "nbf", "tid"],
        "tenant_region_scope": Value::Null,
        "cloud_instance_name": host(base),
    });
    Json(told).into_response()
}

/// Without its port.
fn host(base: &str) -> &str {
    let host = authority_host(base);
    match host.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => host,
    }
}

fn authority_host(base: &str) -> &str {
    base.trim_start_matches("https://")
}
