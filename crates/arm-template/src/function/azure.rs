//! Names that Azure makes up: of resources, groups and subscriptions. What is made of arguments alone is
//! always the same; what is not is a placeholder.

use serde_json::{Map, Value};

use super::string;
use crate::placeholder;
use crate::text_format::shown;

/// In the place of a subscription and a group of resources.
const SUBSCRIPTION: &str = "/subscriptions/00000000-0000-0000-0000-000000000000";
const GROUP: &str = "local";

pub(super) fn call(name: &str, arguments: &[Value]) -> Option<Result<Value, String>> {
    Some(match name {
        "resourceid" => resource_id(arguments, &format!("{SUBSCRIPTION}/resourceGroups/{GROUP}")),
        "subscriptionresourceid" => resource_id(arguments, SUBSCRIPTION),
        "tenantresourceid" | "managementgroupresourceid" => resource_id(arguments, ""),
        "extensionresourceid" => {
            string(arguments, 0).and_then(|of| resource_id(&arguments[1..], of))
        }
        "uniquestring" => Ok(unique(arguments).into()),
        "guid" => Ok(guid(arguments).into()),
        "resourcegroup" => Ok(group()),
        "subscription" => Ok(subscription()),
        "tenant" => Ok(placeholder::object("tenant()", Map::new())),
        "deployment" => Ok(placeholder::object("deployment()", Map::new())),
        "environment" => Ok(placeholder::object("environment()", Map::new())),
        "newguid" | "utcnow" => {
            Err("it is another each time; give the value as a parameter".to_owned())
        }
        name if name.starts_with("list") && name.len() > "list".len() => {
            Ok(placeholder::object(&format!("{name}(…)"), Map::new()))
        }
        "references" | "pickzones" | "providers" | "getsecret" => {
            Ok(placeholder::object(&format!("{name}(…)"), Map::new()))
        }
        _ => return None,
    })
}

fn members(of: &[(&str, String)]) -> Map<String, Value> {
    of.iter().map(|(name, value)| ((*name).to_owned(), Value::from(value.as_str()))).collect()
}

fn group() -> Value {
    let id = format!("{SUBSCRIPTION}/resourceGroups/{GROUP}");
    let known =
        members(&[("id", id), ("name", GROUP.to_owned()), ("location", "local".to_owned())]);
    placeholder::object("resourceGroup()", known)
}

fn subscription() -> Value {
    let number = SUBSCRIPTION.rsplit('/').next().unwrap_or_default().to_owned();
    let known = members(&[("id", SUBSCRIPTION.to_owned()), ("subscriptionId", number)]);
    placeholder::object("subscription()", known)
}

/// `…/providers/Some.Provider/type/name/type/name`. What stands before the type names another scope.
fn resource_id(arguments: &[Value], scope: &str) -> Result<Value, String> {
    let texts: Vec<String> = arguments.iter().map(shown).collect();
    let at = texts
        .iter()
        .position(|text| text.contains('/') && text.contains('.') && !text.starts_with('/'));
    let at = at.ok_or("it takes a type, like Some.Provider/things, and names")?;
    let kind = texts[at].trim_end_matches('/');
    let (provider, types) = kind.split_once('/').unwrap_or((kind, ""));
    let names: Vec<&str> = texts[at + 1..].iter().flat_map(|name| name.split('/')).collect();
    let mut id = format!("{scope}/providers/{provider}");
    for (kind, name) in types.split('/').zip(names) {
        id += &format!("/{kind}/{name}");
    }
    Ok(id.into())
}

/// Of 64 bits: FNV-1a.
fn hash(arguments: &[Value], seed: u64) -> u64 {
    let texts: Vec<String> = arguments.iter().map(shown).collect();
    let bytes = texts.iter().flat_map(|text| text.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325 ^ seed, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Thirteen characters, as Azure's; another text than Azure's, whose hash is not published.
fn unique(arguments: &[Value]) -> String {
    const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let hash = hash(arguments, 0);
    (0..13).map(|at| char::from(ALPHABET[(hash >> (at * 5) & 31) as usize])).collect()
}

fn guid(arguments: &[Value]) -> String {
    let hex = format!("{:016x}{:016x}", hash(arguments, 1), hash(arguments, 2));
    let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    parts.join("-")
}
