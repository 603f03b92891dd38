//! Another implementation reads what is written here, and its own writing is read here:
//! `serde_amqp` with the types of `fe2o3-amqp-types`.

use fe2o3_amqp_types::{performatives as theirs, sasl as theirs_sasl};
use proptest::prelude::*;
use serde::{Serialize, de::DeserializeOwned};

use super::arbitrary::{performative as any_performative, sasl, value};
use super::*;

/// Through the other implementation and back.
fn through<T: DeserializeOwned + Serialize>(ours: &Bytes) -> Bytes {
    let theirs: T = serde_amqp::from_slice(ours).unwrap_or_else(|error| {
        panic!("they cannot read it: {error}: {ours:02x?}");
    });
    serde_amqp::to_vec(&theirs).expect("they can write what they read").into()
}

fn performative_through(bytes: &Bytes, performative: &Performative) -> Bytes {
    match performative {
        Performative::Open(_) => through::<theirs::Open>(bytes),
        Performative::Begin(_) => through::<theirs::Begin>(bytes),
        Performative::Attach(_) => through::<theirs::Attach>(bytes),
        Performative::Flow(_) => through::<theirs::Flow>(bytes),
        Performative::Transfer(_) => through::<theirs::Transfer>(bytes),
        Performative::Disposition(_) => through::<theirs::Disposition>(bytes),
        Performative::Detach(_) => through::<theirs::Detach>(bytes),
        Performative::End(_) => through::<theirs::End>(bytes),
        Performative::Close(_) => through::<theirs::Close>(bytes),
    }
}

/// What an absent expiry policy means, they write out.
fn without_default_policies(mut performative: Performative) -> Performative {
    let is_default = |policy: &mut Symbol| policy.as_str() == "session-end";
    if let Performative::Attach(attach) = &mut performative {
        if let Some(source) = &mut attach.source {
            source.expiry_policy.take_if(is_default);
        }
        if let Some(AnyTarget::Node(target)) = &mut attach.target {
            target.expiry_policy.take_if(is_default);
        }
    }
    performative
}

proptest! {
    #[test]
    fn values(value in value()) {
        let bytes = through::<serde_amqp::Value>(&encoded(&value));
        prop_assert_eq!(Value::parse(&bytes, &Limits::default()), Ok(value));
    }

    #[test]
    fn performatives(performative in any_performative()) {
        let bytes = performative_through(&encoded_performative(&performative), &performative);
        let back = super::performative(&bytes).map(without_default_policies);
        prop_assert_eq!(back, Ok(performative));
    }

    #[test]
    fn sasl_frames(sasl in sasl()) {
        let mut out = BytesMut::new();
        sasl.write(&mut out);
        let ours = out.freeze();
        let bytes = match &sasl {
            SaslFrame::Mechanisms(_) => through::<theirs_sasl::SaslMechanisms>(&ours),
            SaslFrame::Init(_) => through::<theirs_sasl::SaslInit>(&ours),
            SaslFrame::Challenge(_) => through::<theirs_sasl::SaslChallenge>(&ours),
            SaslFrame::Response(_) => through::<theirs_sasl::SaslResponse>(&ours),
            SaslFrame::Outcome(_) => through::<theirs_sasl::SaslOutcome>(&ours),
        };
        prop_assert_eq!(SaslFrame::read(&mut Reader::new(&bytes, &Limits::default())), Ok(sasl));
    }
}

#[test]
fn coord_2_coord_3_transaction_requests() {
    use fe2o3_amqp_types::transaction::{Declare as TheirDeclare, Discharge as TheirDischarge};
    let limits = Limits::default();
    let bytes = through::<TheirDeclare>(&encoded(&Declare { global_id: None }));
    assert_eq!(Reader::new(&bytes, &limits).composite::<Declare>(), Ok(Declare::default()));
    let discharge = Discharge { txn_id: Bytes::from_static(b"txn"), fail: true };
    let bytes = through::<TheirDischarge>(&encoded(&discharge));
    assert_eq!(Reader::new(&bytes, &limits).composite::<Discharge>(), Ok(discharge));
}
