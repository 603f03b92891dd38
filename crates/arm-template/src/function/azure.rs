//! Names that Azure makes up: of resources, groups and subscriptions. What is made of arguments alone is
//! always the same; what is not is a placeholder.

use serde_json::{Map, Value};

use super::string;
use crate::context::Context;
use crate::placeholder;
use crate::text_format::{date, shown};

pub(super) fn call(
    context: &Context,
    name: &str,
    arguments: &[Value],
) -> Option<Result<Value, String>> {
    Some(match name {
        "resourceid" => group_resource_id(context, arguments),
        "subscriptionresourceid" => resource_id(arguments, &context.subscription_id),
        "tenantresourceid" | "managementgroupresourceid" => resource_id(arguments, ""),
        "extensionresourceid" => {
            string(arguments, 0).and_then(|of| resource_id(&arguments[1..], of))
        }
        "uniquestring" => Ok(unique(arguments).into()),
        "guid" => Ok(guid(arguments).into()),
        "resourcegroup" => Ok(context.group.clone()),
        "subscription" => Ok(context.subscription.clone()),
        "tenant" => Ok(context.tenant.clone()),
        "environment" => Ok(context.environment.clone()),
        "utcnow" if context.now.is_some() => {
            let format = if arguments.is_empty() { Ok("") } else { string(arguments, 0) };
            format.map(|format| date(context.now.unwrap_or_default(), format).into())
        }
        "newguid" | "utcnow" => {
            Err("it is another each time; give the value as a parameter".to_owned())
        }
        "references" | "pickzones" | "providers" | "getsecret" => {
            Ok(placeholder::object(&format!("{name}(…)"), Map::new()))
        }
        _ => return None,
    })
}

/// Of the group, or of one that is named before the type, perhaps with its subscription.
fn group_resource_id(context: &Context, arguments: &[Value]) -> Result<Value, String> {
    let before =
        arguments.iter().take_while(|one| !one.as_str().is_some_and(|of| of.contains('/')));
    let before: Vec<String> = before.map(shown).collect();
    let scope = match before.as_slice() {
        [group] => format!("{}/resourceGroups/{group}", context.subscription_id),
        [subscription, group] => format!("/subscriptions/{subscription}/resourceGroups/{group}"),
        _ => context.group_id(),
    };
    resource_id(arguments, &scope)
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
