//! An operator's wish that an entity be on another group. The group that has it decides, and its leader
//! carries it out.

use domain::{
    Command, Depart, EntityKind, FEATURE_LEVEL_RELOCATION, GroupId, Outcome, Refusal,
    RelocationCommand,
};

use crate::edge::catalog::Catalog;
use crate::edge::cluster::Cluster;
use crate::edge::router::{Failure, PAUSE_MIN, not_found};
use crate::error::{Error, ErrorKind, Result};

const WHAT: &str = "group";

impl Cluster<'_> {
    /// Moves a queue, or a topic with its subscriptions, to a data group, with all it has and while it is
    /// used. True once it is there; false if that takes longer than a request may: it goes on, and whoever
    /// asks again waits on. A repeat changes nothing.
    pub async fn move_entity(self, name: &str, to: GroupId) -> Result<bool> {
        let router = self.router();
        let cluster = self.of_level(FEATURE_LEVEL_RELOCATION, WHAT).await?;
        let refuse = |why: String| Err(Error::new(Refusal::Argument { what: WHAT, why }, name));
        if !(1..=cluster.data_groups).contains(&to.0) {
            return refuse(format!(
                "there is no group {to}; name one of 1 to {}",
                cluster.data_groups
            ));
        }
        let deadline = router.deadline();
        let path = self.namespace.qualify(name).map_err(|refusal| Error::new(refusal, name))?;
        let row = Catalog::new(router).row(path.as_str(), deadline).await?;
        let Some(row) = row.filter(|row| row.is_there()) else { return Err(not_found(name)) };
        if row.kind == EntityKind::Subscription {
            return refuse("a subscription is where its topic is; move that".to_owned());
        }
        if row.group == to {
            return Ok(true);
        }
        // Where it goes there must be somebody to take it: it is not used meanwhile.
        if let Some(why) = router.want_of_leader(to) {
            return Err(Error::new(ErrorKind::Unavailable { why }, name));
        }
        let (entity, mut group, mut pause) = (row.entity, row.group, PAUSE_MIN);
        loop {
            let depart = Command::Relocate(RelocationCommand::Depart(Depart { entity, to }));
            match router.call(group, depart, deadline).await {
                Ok(answer) => match answer.outcome {
                    Outcome::Done => (),
                    Outcome::Refused(refusal) if refusal == domain::SWEEPING => {
                        if !router.wait(&mut pause, deadline).await {
                            return Err(Error::new(refusal, name));
                        }
                    }
                    Outcome::Refused(refusal) => return Err(Error::new(refusal, name)),
                    other => return Err(crate::edge::receiver::unexpected(&other, name.into())),
                },
                Err(Failure::Mendable {
                    refusal: Refusal::Relocated { entity, to: went }, ..
                }) => {
                    if went == Some(to) {
                        return Ok(true);
                    }
                    let went = (entity, went);
                    if router.follow(&mut group, went, &mut pause, deadline).await.is_err() {
                        return Ok(false);
                    }
                }
                Err(Failure::Mendable { refusal: Refusal::StaleRoute { .. }, .. }) => {
                    return Err(not_found(name));
                }
                Err(Failure::Mendable { refusal, .. }) => return Err(Error::new(refusal, name)),
                Err(Failure::Error(kind)) => return Err(Error::new(kind, name)),
            }
        }
    }
}
