//! Namespaces: those of the cluster, and beside each what clients said of it that the broker has no use for.

use std::collections::BTreeMap;

use auth::Key;
use axum::http::header::{LOCATION as LOCATION_HEADER, RETRY_AFTER};
use axum::http::{Method, StatusCode};
use axum::response::IntoResponse;
use domain::validate::InProfile;
use domain::{
    AccessRights, AuthorizationRule, Namespace, NamespaceRow, NewNamespace, Profile, Span,
    Timestamp,
};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use service::NamespaceInfo;

use crate::ask::{Answer, Ask, LOCATION, gone, told};
use crate::failure::Failure;
use crate::groups::{self, DEFAULT_GROUP, Group, Tags, check_tags};

const PREFIX: &str = "azure/namespaces/";
const TYPE: &str = "Microsoft.ServiceBus/Namespaces";
/// What Azure lets namespaces be called.
const NAME_CHARS: std::ops::RangeInclusive<usize> = 6..=50;
const NAME_RULE: &str = "The specified service namespace is invalid: it has 6 to 50 letters, digits and '-', begins with \
     a letter, and ends with neither '-' nor '-sb' nor '-mgmt'.";
const NAME_ENDS_NOT_WITH: [&str; 2] = ["-sb", "-mgmt"];
/// When somebody looks again whether a deletion is over, in seconds.
const DELETED_AFTER_S: u32 = 2;

/// What is kept of one, and told again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Kept {
    /// Of which namespace of that name: as it was drawn when that was created; 0: of the default one.
    request: u64,
    pub group: String,
    pub location: String,
    tags: Tags,
    /// What has no effect here, as it was said.
    capacity: Option<u32>,
    zone_redundant: bool,
    minimum_tls_version: String,
    premium_messaging_partitions: u32,
    pub trusted_service_access_enabled: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
enum SkuName {
    Basic,
    #[default]
    Standard,
    Premium,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sku {
    name: SkuName,
    /// The name again; `az` leaves there what was.
    #[serde(default, rename = "tier")]
    _tier: Option<IgnoredAny>,
    #[serde(default)]
    capacity: Option<u32>,
}

impl SkuName {
    fn profile(self) -> Profile {
        match self {
            SkuName::Basic => Profile::Basic,
            SkuName::Standard => Profile::Standard,
            SkuName::Premium => Profile::Premium,
        }
    }
}

impl Default for Kept {
    fn default() -> Kept {
        Kept {
            request: 0,
            group: DEFAULT_GROUP.to_owned(),
            location: LOCATION.to_owned(),
            tags: Tags::new(),
            capacity: None,
            zone_redundant: false,
            minimum_tls_version: "1.2".to_owned(),
            premium_messaging_partitions: 0,
            trusted_service_access_enabled: false,
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NamespaceBody {
    location: Option<String>,
    tags: Option<Tags>,
    sku: Option<Sku>,
    identity: Option<Identity>,
    properties: Option<NamespaceProperties>,
    #[serde(rename = "id")]
    _id: Option<IgnoredAny>,
    #[serde(rename = "name")]
    _name: Option<IgnoredAny>,
    #[serde(rename = "type")]
    _type: Option<IgnoredAny>,
    #[serde(rename = "systemData")]
    _system_data: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Identity {
    r#type: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NamespaceProperties {
    zone_redundant: Option<bool>,
    minimum_tls_version: Option<String>,
    premium_messaging_partitions: Option<u32>,
    disable_local_auth: Option<bool>,
    public_network_access: Option<String>,
    alternate_name: Option<String>,
    encryption: Option<BTreeMap<String, Value>>,
    private_endpoint_connections: Option<Vec<Value>>,
    geo_data_replication: Option<Value>,
    platform_capabilities: Option<Value>,
    ip_address_type: Option<String>,
    #[serde(rename = "provisioningState")]
    _provisioning_state: Option<IgnoredAny>,
    #[serde(rename = "status")]
    _status: Option<IgnoredAny>,
    #[serde(rename = "createdAt")]
    _created_at: Option<IgnoredAny>,
    #[serde(rename = "updatedAt")]
    _updated_at: Option<IgnoredAny>,
    #[serde(rename = "serviceBusEndpoint")]
    _service_bus_endpoint: Option<IgnoredAny>,
    #[serde(rename = "metricId")]
    _metric_id: Option<IgnoredAny>,
}

impl NamespaceProperties {
    /// What means nothing here, where it would change what the namespace does.
    ///
    /// # Errors
    /// Something of it is asked for.
    fn check(&self) -> Result<(), Failure> {
        let is_open = |access: &String| access.eq_ignore_ascii_case("Enabled");
        let is_some = |text: &Option<String>| text.as_deref().is_some_and(|text| !text.is_empty());
        for (is_asked, what) in [
            (self.disable_local_auth == Some(true), "namespaces without keys (disableLocalAuth)"),
            (
                self.public_network_access.as_ref().is_some_and(|access| !is_open(access)),
                "private networks (publicNetworkAccess)",
            ),
            (is_some(&self.alternate_name), "alternate names of namespaces"),
            (
                self.encryption.as_ref().is_some_and(|of| !of.is_empty()),
                "keys of customers (encryption)",
            ),
            (
                self.private_endpoint_connections.as_ref().is_some_and(|list| !list.is_empty()),
                "private endpoints",
            ),
            (
                self.geo_data_replication.as_ref().is_some_and(|of| !of.is_null()),
                "replication to other regions",
            ),
            (
                self.platform_capabilities.as_ref().is_some_and(|of| !of.is_null()),
                "confidential computing",
            ),
            (
                self.ip_address_type.as_ref().is_some_and(|kind| kind != "IPv4"),
                "choice of IP versions (ipAddressType)",
            ),
        ] {
            if is_asked {
                return Err(Failure::not_here(what));
            }
        }
        match self.minimum_tls_version.as_deref() {
            None | Some("1.0" | "1.1" | "1.2" | "1.3") => Ok(()),
            Some(_) => Err(Failure::bad("minimumTlsVersion is 1.0, 1.1, 1.2 or 1.3.")),
        }
    }
}

impl Kept {
    /// Of a namespace as it is now.
    pub fn of(ask: &Ask<'_>, row: &NamespaceRow) -> Kept {
        let found = ask.broker.documents().get(&document(&row.name));
        let kept = found.and_then(|found| serde_json::from_str::<Kept>(&found.text.0).ok());
        let kept = kept.filter(|kept| kept.request == row.request);
        kept.unwrap_or(Kept { request: row.request, ..Kept::default() })
    }

    pub async fn put(&self, ask: &Ask<'_>, name: &str) -> Result<(), Failure> {
        let text = serde_json::to_string(self).unwrap_or_default();
        ask.broker.documents().put(&document(name), text, false).await?;
        Ok(())
    }

    /// What a body says of it.
    fn change(&mut self, body: &NamespaceBody) -> Result<(), Failure> {
        if let Some(identity) = &body.identity
            && identity.r#type.as_deref().is_some_and(|kind| !kind.eq_ignore_ascii_case("None"))
        {
            return Err(Failure::not_here("identities of namespaces"));
        }
        if let Some(tags) = &body.tags {
            check_tags(tags)?;
            self.tags = tags.clone();
        }
        if let Some(sku) = body.sku {
            self.capacity = sku.capacity;
        }
        let Some(properties) = &body.properties else { return Ok(()) };
        properties.check()?;
        self.zone_redundant = properties.zone_redundant.unwrap_or(self.zone_redundant);
        let partitions = properties.premium_messaging_partitions;
        self.premium_messaging_partitions = partitions.unwrap_or(self.premium_messaging_partitions);
        if let Some(version) = &properties.minimum_tls_version {
            self.minimum_tls_version = version.clone();
        }
        Ok(())
    }
}

fn document(name: &str) -> String {
    format!("{PREFIX}{name}")
}

/// One as Resource Manager knows it.
pub(crate) struct Place {
    pub namespace: Namespace,
    pub kept: Kept,
    profile: Profile,
    created_at: Timestamp,
    modified_at: Timestamp,
    is_ready: bool,
    /// It is not there, and will be by the time that is asked about.
    pub is_planned: bool,
}

impl Place {
    fn of(ask: &Ask<'_>, row: &NamespaceRow) -> Place {
        Place {
            is_planned: false,
            namespace: Namespace::named(&row.name).unwrap_or_default(),
            kept: Kept::of(ask, row),
            profile: row.next_profile.unwrap_or(row.profile),
            created_at: row.created_at,
            modified_at: row.modified_at,
            is_ready: row.is_ready(),
        }
    }

    /// The one of that name in a group.
    ///
    /// # Errors
    /// There is none, or no such group.
    pub fn find(ask: &Ask<'_>, group: &str, name: &str) -> Result<Place, Failure> {
        let group = Group::find(ask, group)?;
        let found = all(ask).into_iter().find(|place| {
            place.namespace.as_str().eq_ignore_ascii_case(name)
                && place.kept.group.eq_ignore_ascii_case(&group.name)
        });
        let planned = ask.trial.and_then(|it| it.namespaces.get(&name.to_ascii_lowercase()));
        let found = match (found, planned) {
            (Some(place), Some(Some(profile))) => Some(Place { profile: *profile, ..place }),
            (None, Some(profile)) => {
                let kept = Kept { group: group.name.clone(), ..Kept::default() };
                Place::planned(name, kept, profile.unwrap_or(Profile::Standard))
            }
            (found, _) => found,
        };
        found.ok_or_else(|| {
            let message = format!(
                "The Resource 'Microsoft.ServiceBus/namespaces/{}' under resource group '{}' was not found.",
                domain::Excerpt(name),
                group.name
            );
            Failure::not_found("ResourceNotFound", message)
        })
    }

    fn planned(name: &str, kept: Kept, profile: Profile) -> Option<Place> {
        Some(Place {
            namespace: Namespace::named(name).ok()?,
            kept,
            profile,
            created_at: Timestamp::default(),
            modified_at: Timestamp::default(),
            is_ready: true,
            is_planned: true,
        })
    }

    /// What it takes.
    pub fn in_profile(&self) -> InProfile<'_> {
        InProfile { profile: self.profile, namespace: &self.namespace }
    }

    pub fn id(&self, ask: &Ask<'_>) -> String {
        let group = ask.group_id(&self.kept.group);
        format!("{group}/providers/Microsoft.ServiceBus/namespaces/{}", self.namespace)
    }

    /// The host by which clients of the namespace reach the node that was asked.
    pub fn host(&self, ask: &Ask<'_>) -> String {
        let (host, _) = split_port(ask.host);
        let of_cluster = match host.split_once('.') {
            Some((first, rest)) if !ask.broker.namespaces().of_host(first).is_default() => rest,
            _ => host,
        };
        match self.namespace.is_default() {
            true => of_cluster.to_owned(),
            false => format!("{}.{of_cluster}", self.namespace),
        }
    }

    fn shown(&self, ask: &Ask<'_>) -> Value {
        let Kept { location, tags, capacity, .. } = &self.kept;
        let state = if self.is_ready { ("Active", "Succeeded") } else { ("Removing", "Deleting") };
        let tier = self.profile.limits().sku;
        let mut sku = json!({"name": tier, "tier": tier});
        if self.profile == Profile::Premium {
            sku["capacity"] = json!(capacity.unwrap_or(1));
        }
        json!({
            "id": self.id(ask),
            "name": self.namespace.as_str(),
            "type": TYPE,
            "location": location,
            "tags": tags,
            "sku": sku,
            "properties": {
                "provisioningState": state.1,
                "status": state.0,
                "createdAt": instant(self.created_at),
                "updatedAt": instant(self.modified_at),
                "serviceBusEndpoint": format!("https://{}/", ask.messaging.endpoint(ask.host, &self.host(ask))),
                "metricId": format!("{}:{}", ask.subscription, self.namespace),
                "zoneRedundant": self.kept.zone_redundant,
                "minimumTlsVersion": self.kept.minimum_tls_version,
                "premiumMessagingPartitions": self.kept.premium_messaging_partitions,
                "disableLocalAuth": false,
                "publicNetworkAccess": "Enabled",
                "privateEndpointConnections": [],
            },
        })
    }
}

/// Without and with its port.
fn split_port(host: &str) -> (&str, Option<&str>) {
    match host.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => (host, Some(port)),
        _ => (host, None),
    }
}

/// As JSON has it.
pub(crate) fn instant(at: Timestamp) -> String {
    let at = i64::try_from(at.0).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    at.unwrap_or_default().strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()
}

/// The default one, and then all others.
fn all(ask: &Ask<'_>) -> Vec<Place> {
    let namespaces = ask.broker.namespaces();
    [namespaces.default_one()]
        .into_iter()
        .chain(namespaces.list())
        .map(|info| Place::of(ask, &info.row))
        .collect()
}

/// Those that the caller may see, of a group or of all.
pub(crate) fn shown(ask: &Ask<'_>, group: Option<&str>) -> Result<Vec<Value>, Failure> {
    let group = group.map(|name| Group::find(ask, name)).transpose()?;
    let is_in = |place: &Place| {
        let in_group =
            group.as_ref().is_none_or(|group| place.kept.group.eq_ignore_ascii_case(&group.name));
        in_group && ask.caller.sees(&place.namespace)
    };
    Ok(all(ask).iter().filter(|place| is_in(place)).map(|place| place.shown(ask)).collect())
}

pub(crate) fn list(ask: &Ask<'_>, group: Option<&str>) -> Answer {
    match *ask.method {
        Method::GET => ask.page_of(shown(ask, group)?),
        _ => Err(Failure::not_allowed(ask.method)),
    }
}

/// All resources: nothing else is one here. A filter names the group, the type, or both.
pub(crate) fn list_resources(ask: &Ask<'_>, group: Option<&str>) -> Answer {
    let mut group = group.map(str::to_owned);
    let filter = form_urlencoded::parse(ask.query.as_bytes())
        .find(|(name, _)| name.eq_ignore_ascii_case("$filter"))
        .map(|(_, filter)| filter.into_owned())
        .filter(|filter| !filter.trim().is_empty());
    for part in filter.iter().flat_map(|filter| filter.split(" and ")) {
        let wanted = part.trim().split_once(" eq ");
        let wanted = wanted.map(|(name, value)| (name.trim(), value.trim().trim_matches('\'')));
        match wanted {
            Some((name, value)) if name.eq_ignore_ascii_case("resourceGroup") => {
                group = Some(value.to_owned());
            }
            Some((name, value)) if name.eq_ignore_ascii_case("resourceType") => {
                if !value.eq_ignore_ascii_case(TYPE) {
                    return ask.page_of(Vec::new());
                }
            }
            _ => {
                return Err(Failure::bad(
                    "A $filter of resources is resourceGroup eq '…', resourceType eq '…', or both with 'and'.",
                ));
            }
        }
    }
    list(ask, group.as_deref())
}

pub(crate) async fn answer(ask: &Ask<'_>, group: &str, name: &str) -> Answer {
    match *ask.method {
        Method::GET => told(Place::find(ask, group, name)?.shown(ask)),
        Method::PUT => put(ask, group, name).await,
        Method::PATCH => update(ask, Place::find(ask, group, name)?).await,
        Method::DELETE => match Place::find(ask, group, name) {
            Ok(place) => delete(ask, &place).await,
            Err(_) => gone(false),
        },
        _ => Err(Failure::not_allowed(ask.method)),
    }
}

async fn put(ask: &Ask<'_>, group: &str, name: &str) -> Answer {
    let group = Group::find(ask, group)?;
    let elsewhere =
        all(ask).into_iter().find(|at| at.namespace.as_str().eq_ignore_ascii_case(name));
    if let Some(place) = elsewhere {
        if !place.kept.group.eq_ignore_ascii_case(&group.name) {
            let message = format!(
                "The specified name '{}' is not available: it is that of a namespace in the resource group '{}'.",
                place.namespace, place.kept.group
            );
            return Err(Failure::new(StatusCode::CONFLICT, "NamespaceUnavailable", message));
        }
        return update(ask, place).await;
    }
    if let Some(why) = unavailable(name) {
        return Err(Failure::bad(why));
    }
    let body: NamespaceBody = ask.read()?;
    let mut kept = Kept { group: group.name.clone(), ..Kept::default() };
    kept.location = match &body.location {
        Some(written) => groups::location(Some(written)),
        None => group.location,
    };
    kept.change(&body)?;
    let root = AuthorizationRule {
        name: Key::ROOT.to_owned(),
        rights: AccessRights::ALL,
        ..AuthorizationRule::default()
    };
    let profile = body.sku.unwrap_or_default().name.profile();
    if ask.trial.is_some() {
        let planned = Place::planned(name, kept, profile);
        let planned = planned.ok_or_else(|| Failure::bad(NAME_RULE))?;
        return told(planned.shown(ask));
    }
    let new = NewNamespace {
        name: name.to_owned(),
        profile,
        auto_delete_on_idle: Span::MAX,
        authorization_rules: vec![root],
    };
    let created = ask.broker.namespaces().create(new, None).await?;
    let NamespaceInfo { row, .. } = created;
    kept.request = row.request;
    kept.put(ask, &row.name).await?;
    told(Place::of(ask, &row).shown(ask))
}

async fn update(ask: &Ask<'_>, place: Place) -> Answer {
    let body: NamespaceBody = ask.read()?;
    let mut kept = place.kept.clone();
    if let Some(written) = body.location.as_deref()
        && groups::location(Some(written)) != kept.location
    {
        let message = format!(
            "The resource '{}' already exists in location '{}' in resource group '{}'. A resource with the same name \
             cannot be created in location '{}'.",
            place.namespace,
            kept.location,
            kept.group,
            domain::Excerpt(written)
        );
        return Err(Failure::new(StatusCode::CONFLICT, "InvalidResourceLocation", message));
    }
    if *ask.method == Method::PUT {
        kept.tags = Tags::new();
    }
    kept.change(&body)?;
    let mut profile = place.profile;
    // Who says again what was told asks for nothing: a namespace of no tier tells one too.
    if let Some(asked) = body.sku.map(|sku| sku.name.profile())
        && asked.limits().sku != profile.limits().sku
    {
        if ask.trial.is_some() {
            return told(Place { kept, profile: asked, ..place }.shown(ask));
        }
        let changed = ask.broker.namespaces().change_profile(place.namespace.as_str(), asked);
        profile = changed.await?.row.profile;
    }
    if ask.trial.is_none() {
        kept.put(ask, place.namespace.as_str()).await?;
    }
    told(Place { kept, profile, ..place }.shown(ask))
}

async fn delete(ask: &Ask<'_>, place: &Place) -> Answer {
    if place.namespace.is_default() {
        let message = "The namespace 'default' is always there.";
        return Err(Failure::new(StatusCode::CONFLICT, "Conflict", message));
    }
    let name = place.namespace.as_str();
    if delete_all(ask, name).await? {
        return gone(true);
    }
    let results = format!(
        "{}/subscriptions/{}/providers/Microsoft.ServiceBus/locations/{}/operationresults/{name}?api-version=2021-11-01",
        ask.base(),
        ask.subscription,
        place.kept.location
    );
    let after = DELETED_AFTER_S.to_string();
    Ok((StatusCode::ACCEPTED, [(LOCATION_HEADER, results), (RETRY_AFTER, after)]).into_response())
}

/// With all that is in it; false where that takes longer than a request may, and goes on.
pub(crate) async fn delete_all(ask: &Ask<'_>, name: &str) -> Result<bool, Failure> {
    let is_gone = ask.broker.namespaces().delete(name, true).await?;
    ask.broker.documents().remove(&document(name)).await?;
    Ok(is_gone)
}

/// Whether a deletion is over.
pub(crate) fn deletion(ask: &Ask<'_>, name: &str) -> Answer {
    let is_there = all(ask).iter().any(|place| place.namespace.as_str() == name);
    let after = DELETED_AFTER_S.to_string();
    match is_there {
        true => Ok((StatusCode::ACCEPTED, [(RETRY_AFTER, after)]).into_response()),
        false => gone(false),
    }
}

/// The profile that a `sku` asks for; none where it says nothing that is known.
pub(crate) fn profile_of(sku: &Value) -> Option<Profile> {
    let name = SkuName::deserialize(sku.get("name")?).ok()?;
    Some(name.profile())
}

/// Why nothing can be called so.
fn unavailable(name: &str) -> Option<String> {
    let lower = name.to_ascii_lowercase();
    let is_named = lower.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-')
        && lower.starts_with(|c: char| c.is_ascii_alphabetic())
        && !lower.ends_with('-');
    let ends_well = !NAME_ENDS_NOT_WITH.iter().any(|end| lower.ends_with(end));
    let is_allowed = NAME_CHARS.contains(&lower.chars().count()) && is_named && ends_well;
    (!is_allowed).then(|| NAME_RULE.to_owned())
}

#[derive(Deserialize)]
struct NameCheck {
    name: String,
}

pub(crate) fn check_name(ask: &Ask<'_>) -> Answer {
    if *ask.method != Method::POST {
        return Err(Failure::not_allowed(ask.method));
    }
    let NameCheck { name } = ask.read()?;
    let is_taken = all(ask).iter().any(|at| at.namespace.as_str().eq_ignore_ascii_case(&name));
    let (is_free, reason, message) = match (unavailable(&name), is_taken) {
        (Some(why), _) => (false, "InvalidName", why),
        (None, true) => (false, "NameInUse", "The specified name is not available.".to_owned()),
        (None, false) => (true, "None", String::new()),
    };
    told(json!({"nameAvailable": is_free, "reason": reason, "message": message}))
}
