//! Once faults end, a group whose majority kept what it held heals by itself; one whose majority lost
//! it stands still rather than forget.

use crate::raft::member::Member;
use crate::report::{Broken, Holds};

fn broken(what: String) -> Broken {
    Broken { invariant: "recovered", source: "README (How a replica fails and returns)", what }
}

/// Every replica has its vote again, and no membership is half done.
pub fn all_voters(members: &[Option<Member>]) -> Holds {
    for (node, member) in members.iter().enumerate() {
        let Some(member) = member else {
            return Err(broken(format!("node {node} does not know what it is")));
        };
        if !member.replica.at().2.has_settled(member.id) {
            let config = member.replica.at().2;
            return Err(broken(format!("{:?} has no vote yet: {config:?}", member.id)));
        }
    }
    Ok(())
}

/// Nothing is committed any more, and nobody leads who did not before.
pub fn stands_still(frozen: (u64, u64), now: (u64, u64)) -> Holds {
    match frozen == now {
        true => Ok(()),
        false => Err(broken(format!(
            "a majority was wiped with {frozen:?} committed and elected, now it is {now:?}"
        ))),
    }
}
