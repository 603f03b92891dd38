//! Profiles of namespaces (QUOTA-0, QUOTA-40): which one holds, and its change.

use std::sync::Arc;

use domain::validate::{InProfile, batch_within};
use domain::{
    CatalogCommand, Described, EntityKind, FEATURE_LEVEL_PROFILES, Key, Namespace, NamespaceRow,
    NewMessage, Profile, ProfileLimits, QueueProperties, Refusal, Row, Rows, Specifics,
    SubscriptionProperties, TopicProperties,
};

use crate::edge::cluster::Cluster;
use crate::edge::entities::{Entities, PAGE_MAX, QueueInfo};
use crate::edge::namespaces::{NamespaceInfo, Namespaces};
use crate::edge::router::Router;
use crate::error::{Error, Result};

const WHAT: &str = "profile";
/// Entities that do not fit and are named to whoever asks for a profile.
const NAMED_MAX: usize = 20;

/// A namespace's row, by this node's own rows, which may be behind. The default one may have none.
pub(super) fn row(router: &Router, namespace: &Namespace) -> Option<NamespaceRow> {
    match router.local.catalog().get(&Key::Namespace(namespace.as_str().to_owned())) {
        Some(Row::Namespace(row)) => Some(*row),
        _ => None,
    }
}

/// What a namespace takes, as far as this node has heard.
pub(super) fn limits(router: &Router, namespace: &Namespace) -> &'static ProfileLimits {
    row(router, namespace).map(|row| row.profile).unwrap_or_default().limits()
}

/// Of a change to an entity; of a creation the catalog decides.
///
/// # Errors
/// As [`InProfile::changed`].
pub(super) fn check_change<P: Described>(
    router: &Router,
    namespace: &Namespace,
    (old, new): (&P, &P),
) -> Result<(), Refusal> {
    let row = row(router, namespace);
    let mut profiles = row.iter().flat_map(NamespaceRow::profiles);
    profiles.try_for_each(|profile| InProfile { profile, namespace }.changed(old, new))
}

/// QUOTA-6: what a client sends as one.
///
/// # Errors
/// It is larger than the namespace takes.
pub(super) fn check_batch(
    router: &Router,
    namespace: &Namespace,
    messages: &[NewMessage],
) -> Result<(), Refusal> {
    // What every profile takes needs no look at which one it is.
    let least = Profile::ALL.map(|profile| profile.limits().batch_bytes_max);
    let least = least.into_iter().min().unwrap_or_default();
    match batch_within(messages, least) {
        Ok(()) => Ok(()),
        Err(_) => batch_within(messages, limits(router, namespace).batch_bytes_max),
    }
}

/// QUOTA-10, BATCH-9.
///
/// # Errors
/// One call may not delete so many messages, or none may.
pub(super) fn check_batch_deletion(
    router: &Router,
    namespace: &Namespace,
    count_max: u32,
) -> Result<(), Refusal> {
    let limits = limits(router, namespace);
    if !limits.has_all_features {
        let why = "Batch deletion is unsupported because the namespace is of 'Basic' tier";
        return Err(Refusal::InvalidOperation { why });
    }
    let (what, value) = ("max_messages", count_max.to_string());
    let allowed = match limits.batch_delete_max {
        500 => "1 to 500",
        _ => "1 to 4000",
    };
    match (1..=limits.batch_delete_max).contains(&count_max) {
        true => Ok(()),
        false => Err(Refusal::ArgumentOutOfRange { what, value, allowed }),
    }
}

/// QUOTA-35.
///
/// # Errors
/// The namespace has no transactions.
pub(super) fn check_transactions(router: &Router, namespace: &Namespace) -> Result<(), Refusal> {
    let why = "Transaction is unsupported because the namespace is of 'Basic' tier";
    match limits(router, namespace).has_all_features {
        true => Ok(()),
        false => Err(Refusal::InvalidOperation { why }),
    }
}

/// QUOTA-40: has a namespace behave as another tier, if all that is in it fits. Returns once all nodes that answer know
/// it. `request`: what created the namespace, 0 of the default one.
///
/// # Errors
/// Some of what is in it does not fit, which is told; or nobody knows of some of it, and nothing is changed.
pub(super) async fn change(
    router: &Arc<Router>,
    namespace: &Namespace,
    request: u64,
    profile: Profile,
) -> Result<NamespaceInfo> {
    Cluster::new(router).of_level(FEATURE_LEVEL_PROFILES, WHAT).await?;
    let name = namespace.as_str().to_owned();
    let change = CatalogCommand::ChangeProfile { request, name, profile };
    let asked = Namespaces::new(router).changed(change).await?;
    if asked.row.next_profile.is_none() {
        return Ok(asked);
    }
    settle(router, namespace, request, profile).await
}

/// Decides on a change that was asked for. More than one may do so. All nodes that live have heard of it, so that no update
/// makes anything of what was looked at already that does not fit.
async fn settle(
    router: &Arc<Router>,
    namespace: &Namespace,
    request: u64,
    profile: Profile,
) -> Result<NamespaceInfo> {
    let unfit = unfit(router, namespace, profile).await;
    let fits = unfit.as_ref().is_ok_and(|unfit| unfit.names.is_empty());
    let name = namespace.as_str().to_owned();
    let settle = CatalogCommand::SettleProfile { request, name, profile, fits };
    let settled = Namespaces::new(router).changed(settle).await?;
    let unfit = unfit?;
    match settled.row.profile == profile {
        true => Ok(settled),
        false => Err(Error::new(unfit.refusal(namespace, profile), "")),
    }
}

/// Goes on with changes that were asked for and not decided on; whether there were any.
pub(crate) async fn finish_profile_changes(router: &Arc<Router>) -> bool {
    let mut rows = Namespaces::new(router).rows();
    rows.retain(|row| row.next_profile.is_some());
    for row in &rows {
        let (Ok(namespace), Some(profile)) = (Namespace::named(&row.name), row.next_profile) else {
            continue;
        };
        if let Err(error) = settle(router, &namespace, row.request, profile).await {
            tracing::warn!(%error, namespace = row.name, %profile, "a namespace keeps its profile");
        }
    }
    !rows.is_empty()
}

/// What does not fit a profile, each with what of it does not.
#[derive(Default)]
struct Misfits {
    names: Vec<(String, &'static str)>,
    count: usize,
}

impl Misfits {
    fn add(&mut self, name: String, what: &'static str) {
        self.count += 1;
        if self.names.len() < NAMED_MAX {
            self.names.push((name, what));
        }
    }

    fn refusal(self, namespace: &Namespace, profile: Profile) -> Refusal {
        let named: Vec<String> =
            self.names.iter().map(|(name, what)| format!("'{name}' ({what})")).collect();
        let more = match self.count - self.names.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let why = match named.is_empty() {
            true => format!("'{namespace}' was asked for another one meanwhile; ask again"),
            false => format!(
                "'{namespace}' has {} that '{profile}' does not take: {}{more}; change or delete them first",
                if self.count == 1 { "an entity" } else { "entities" },
                named.join(", ")
            ),
        };
        Refusal::Argument { what: WHAT, why }
    }
}

async fn unfit(router: &Arc<Router>, namespace: &Namespace, profile: Profile) -> Result<Misfits> {
    let within = InProfile { profile, namespace };
    let mut unfit = Misfits::default();
    for kind in [EntityKind::Queue, EntityKind::Topic, EntityKind::Subscription] {
        let mut after = None;
        loop {
            let entities = Entities::new(router, namespace);
            let page = entities.list(kind, after.as_deref(), "", PAGE_MAX).await?;
            for found in page.queues {
                if let Some(what) = misfit(within, &found) {
                    unfit.add(found.info.name, what);
                }
            }
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
    }
    Ok(unfit)
}

fn misfit(within: InProfile<'_>, found: &QueueInfo) -> Option<&'static str> {
    let common: &QueueProperties = &found.info.properties;
    match &found.info.specifics {
        Specifics::Queue => within.misfit(common),
        Specifics::Topic(specifics) => within.misfit(&TopicProperties::of(common, specifics)),
        Specifics::Subscription(specifics) => {
            within.misfit(&SubscriptionProperties::of(common, specifics))
        }
    }
}
