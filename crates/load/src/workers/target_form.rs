//! A target's address as workers are told it.

use std::time::Duration;

use client::{ClientCertificate, ClientOptions, Trust};

use crate::api;
use crate::over_amqp::Sasl;
use crate::target::{Spoken, TargetAddress};

impl From<&TargetAddress> for api::Target {
    fn from(of: &TargetAddress) -> api::Target {
        let options = &of.options;
        let sasl = match of.spoken {
            Spoken::Grpc => None,
            Spoken::Amqp(sasl) => sasl,
        };
        let own = options.certificate.as_ref();
        api::Target {
            is_amqp: of.spoken != Spoken::Grpc,
            addresses: of.addresses.clone(),
            sasl: sasl.map(|sasl| sasl.name().to_owned()),
            key: options.secret.clone(),
            key_name: options.key_name.clone(),
            namespace: options.namespace.clone(),
            is_tls: options.tls.is_some(),
            authorities: match &options.tls {
                Some(Trust::Authorities(pem)) => Some(pem.clone().into()),
                Some(Trust::System) | None => None,
            },
            certificate: own.map(|own| own.certificate.clone().into()),
            certificate_key: own.map(|own| own.key.clone().into()),
            give_up_after_ms: options.give_up_after.as_millis() as u64,
        }
    }
}

impl TryFrom<api::Target> for TargetAddress {
    type Error = String;

    fn try_from(of: api::Target) -> Result<TargetAddress, String> {
        let named = |name: String| {
            let found = Sasl::ALL.into_iter().find(|sasl| sasl.name() == name);
            found.ok_or_else(|| format!("'{name}' is no way to log in that it knows"))
        };
        let sasl = of.sasl.map(named).transpose()?;
        let tls = match (of.is_tls, of.authorities) {
            (false, _) => None,
            (true, None) => Some(Trust::System),
            (true, Some(pem)) => Some(Trust::Authorities(pem.to_vec())),
        };
        let own = of.certificate.zip(of.certificate_key);
        Ok(TargetAddress {
            spoken: if of.is_amqp { Spoken::Amqp(sasl) } else { Spoken::Grpc },
            addresses: of.addresses,
            options: ClientOptions {
                secret: of.key,
                key_name: of.key_name,
                namespace: of.namespace,
                tls,
                certificate: own.map(|(certificate, key)| ClientCertificate {
                    certificate: certificate.to_vec(),
                    key: key.to_vec(),
                }),
                give_up_after: Duration::from_millis(of.give_up_after_ms),
                ..ClientOptions::default()
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_there_what_it_was_here() {
        let own = ClientCertificate { certificate: vec![1], key: vec![2] };
        let options = ClientOptions {
            secret: Some("key".to_owned()),
            key_name: Some("name".to_owned()),
            namespace: Some("orders".to_owned()),
            tls: Some(Trust::Authorities(vec![3])),
            certificate: Some(own),
            give_up_after: Duration::from_secs(7),
            ..ClientOptions::default()
        };
        for spoken in [Spoken::Grpc, Spoken::Amqp(None), Spoken::Amqp(Some(Sasl::Sas))] {
            let addresses = vec!["a:1".to_owned(), "b:2".to_owned()];
            let one = TargetAddress { spoken, addresses, options: options.clone() };
            let read = TargetAddress::try_from(api::Target::from(&one)).expect("a target");
            assert_eq!(format!("{read:?}"), format!("{one:?}"));
        }
        let other = api::Target { sasl: Some("other".to_owned()), ..api::Target::default() };
        assert!(TargetAddress::try_from(other).is_err());
    }
}
