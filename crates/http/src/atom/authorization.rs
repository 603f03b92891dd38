//! Authorization rules in a description (ATOM-18), to and from XML.

use std::io;

use domain::{AccessRights, AuthorizationRule};

use super::description::{Element, elements};
use super::document::Elements;
use crate::failure::Failure;

const KIND: &str = "SharedAccessAuthorizationRule";
/// There is no other claim: what counts is the key.
const CLAIM_TYPE: &str = "SharedAccessKey";
const CLAIM_VALUE: &str = "None";

/// `list`: the element that they are in.
pub(super) fn write(
    out: &mut Elements<'_>,
    list: &str,
    rules: &[AuthorizationRule],
) -> io::Result<()> {
    if rules.is_empty() {
        return out.empty(list);
    }
    out.nested(list, |out| rules.iter().try_for_each(|rule| write_rule(out, rule)))
}

fn write_rule(out: &mut Elements<'_>, rule: &AuthorizationRule) -> io::Result<()> {
    let AuthorizationRule { name, rights, primary_key, secondary_key, created_at, modified_at } =
        rule;
    out.typed("AuthorizationRule", KIND, |out| {
        out.text("ClaimType", CLAIM_TYPE)?;
        out.text("ClaimValue", CLAIM_VALUE)?;
        out.nested("Rights", |out| {
            for (is_given, right) in
                [(rights.manage, "Manage"), (rights.send, "Send"), (rights.listen, "Listen")]
            {
                out.some("AccessRights", is_given.then_some(right))?;
            }
            Ok(())
        })?;
        out.instant("CreatedTime", *created_at)?;
        out.instant("ModifiedTime", *modified_at)?;
        out.text("KeyName", name)?;
        out.text("PrimaryKey", primary_key)?;
        out.text("SecondaryKey", secondary_key)
    })
}

/// All rules there shall be.
pub(super) fn read(list: Element<'_, '_>) -> Result<Vec<AuthorizationRule>, Failure> {
    let rules = elements(list.0).filter(|element| element.name() == "AuthorizationRule");
    rules.map(read_rule).collect()
}

/// When it was created and modified is passed over: that is not the client's to say.
fn read_rule(rule: Element<'_, '_>) -> Result<AuthorizationRule, Failure> {
    if rule.kind().is_some_and(|kind| kind != KIND) {
        return Err(Failure::bad(format!("an AuthorizationRule is of type {KIND}")));
    }
    let mut given = AuthorizationRule::default();
    for element in elements(rule.0) {
        match element.name() {
            "KeyName" => given.name = element.text().to_owned(),
            "PrimaryKey" => given.primary_key = element.text().to_owned(),
            "SecondaryKey" => given.secondary_key = element.text().to_owned(),
            "ClaimType" => only(element, CLAIM_TYPE)?,
            "ClaimValue" => only(element, CLAIM_VALUE)?,
            "Rights" => {
                given.rights = AccessRights::default();
                elements(element.0)
                    .filter(|right| right.name() == "AccessRights")
                    .try_for_each(|right| read_right(right, &mut given.rights))?;
            }
            _ => (),
        }
    }
    Ok(given)
}

fn only(element: Element<'_, '_>, expected: &str) -> Result<(), Failure> {
    match element.text().trim() {
        "" => Ok(()),
        text if text == expected => Ok(()),
        _ => Err(element.wrong(expected)),
    }
}

fn read_right(element: Element<'_, '_>, given: &mut AccessRights) -> Result<(), Failure> {
    match element.text().trim() {
        "Listen" => given.listen = true,
        "Send" => given.send = true,
        "Manage" => given.manage = true,
        _ => return Err(element.wrong("Listen, Send or Manage")),
    }
    Ok(())
}
