//! Clients have keys that count: nobody is refused for his (ENT-12), however often keys are rotated.

use super::{Promise, Violation};
use crate::{Answer, Run};

/// As the native API calls it, and as AMQP does.
const UNAUTHORIZED: [&str; 2] = ["UnauthorizedAccessException", "amqp:unauthorized-access"];

pub fn check(run: &Run) -> Vec<Violation> {
    let refused = run.history.calls.iter().filter_map(|call| match &call.answer {
        Answer::Refused(name) if UNAUTHORIZED.contains(&name.as_str()) => {
            let told = format!("a call was refused with {name} at {} ms", call.answered_ms);
            Some(Violation::new(Promise::GoodKeyTaken, &call.entity, "", told))
        }
        _ => None,
    });
    refused.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Call, What};

    #[test]
    fn ent_12_who_is_refused_for_his_key_is_told_of() {
        for (answer, broken) in [
            (Answer::Done, 0),
            (Answer::Perhaps, 0),
            (Answer::NotDone, 0),
            (Answer::Refused("MessageLockLost".to_owned()), 0),
            (Answer::Refused("UnauthorizedAccessException".to_owned()), 1),
            (Answer::Refused("amqp:unauthorized-access".to_owned()), 1),
        ] {
            let entity = "q".to_owned();
            let call = Call { entity, asked_ms: 1, answered_ms: 2, what: What::Attach, answer };
            let mut run = Run::default();
            run.history.calls.push(call.clone());
            assert_eq!(check(&run).len(), broken, "{call:?}");
        }
    }
}
