//! What comes before what: as the template says, as its expressions name others, and parents before their children.

use crate::Error;
use crate::context::id_end;
use crate::resources::{Draft, Node, NodeKind};

/// Fills in what comes before each node.
///
/// # Errors
/// A dependency that is not in the template, a resource that is there twice, and a circle.
pub(crate) fn resolve(nodes: &mut [Node], drafts: &[Draft]) -> Vec<Error> {
    let mut errors = Vec::new();
    for index in 0..nodes.len() {
        let (mut after, within) = (Vec::new(), nodes[index].within);
        let beside = |other: usize| other != index && nodes[other].within == within;
        let others: Vec<usize> = (0..nodes.len()).filter(|other| beside(*other)).collect();
        let draft = &drafts[index];
        for on in &draft.depends_on {
            let found = others.iter().copied().filter(|other| is_named(&drafts[*other], on));
            let before = after.len();
            after.extend(found);
            // One whose name is not known may be it.
            let may_be = others.iter().any(|other| drafts[*other].name.is_empty());
            if after.len() == before && !may_be && !is_named(draft, on) {
                let why = format!("the resource '{on}' is not defined in the template");
                errors.push(Error::new(format!("{}.dependsOn", nodes[index].at), why));
            }
        }
        for named in &draft.refers {
            after.extend(others.iter().copied().filter(|other| is_named(&drafts[*other], named)));
        }
        after.extend(others.iter().copied().filter(|other| is_parent(&drafts[*other], draft)));
        let is_twice = |other: &&usize| **other < index && is_same(&drafts[**other], draft);
        if let Some(other) = others.iter().find(is_twice)
            && !matches!(nodes[index].is, NodeKind::Absent)
            && !matches!(nodes[*other].is, NodeKind::Absent)
        {
            let Draft { kind, name, .. } = draft;
            let why =
                format!("the resource '{kind}/{name}' is defined multiple times in the template");
            errors.push(Error::new(nodes[index].at.clone(), why));
        }
        after.sort_unstable();
        after.dedup();
        nodes[index].after = after;
    }
    if errors.is_empty() {
        errors.extend(circle(nodes));
    }
    errors
}

/// By its symbolic name, perhaps in a turn, its loop, its id, or its name, of which the last part will do.
fn is_named(draft: &Draft, named: &str) -> bool {
    let is = |of: &Option<String>| of.as_deref().is_some_and(|of| of.eq_ignore_ascii_case(named));
    if is(&draft.symbol) || is(&draft.loop_name) {
        return true;
    }
    if draft.name.is_empty() {
        return false;
    }
    if named.contains("/providers/") || named.contains("/PROVIDERS/") {
        let end = id_end(&draft.kind, &draft.name).to_lowercase();
        return named.to_lowercase().ends_with(&end);
    }
    let last = draft.name.rsplit('/').next().unwrap_or_default();
    named.eq_ignore_ascii_case(&draft.name) || named.eq_ignore_ascii_case(last)
}

fn is_parent(of: &Draft, child: &Draft) -> bool {
    let above = |path: &str| path.rsplit_once('/').map(|(above, _)| above.to_lowercase());
    !of.name.is_empty()
        && above(&child.kind) == Some(of.kind.to_lowercase())
        && above(&child.name) == Some(of.name.to_lowercase())
}

fn is_same(one: &Draft, other: &Draft) -> bool {
    !one.name.is_empty()
        && !one.is_existing
        && !other.is_existing
        && one.kind.eq_ignore_ascii_case(&other.kind)
        && one.name.eq_ignore_ascii_case(&other.name)
}

/// Nodes are taken away whose predecessors are; what stays is in a circle, or behind one.
fn circle(nodes: &[Node]) -> Option<Error> {
    let mut left: Vec<usize> = (0..nodes.len()).collect();
    loop {
        let before = left.len();
        let waits = |node: &usize| nodes[*node].after.iter().any(|on| left.contains(on));
        let next: Vec<usize> = left.iter().copied().filter(waits).collect();
        if next.len() == before {
            break;
        }
        left = next;
    }
    // Along what it waits for, until one comes again: that is in it.
    let mut path = vec![*left.first()?];
    loop {
        let next = nodes[*path.last()?].after.iter().find(|on| left.contains(on))?;
        if let Some(from) = path.iter().position(|node| node == next) {
            let names: Vec<&str> = path[from..].iter().map(|node| &*nodes[*node].at).collect();
            let why = format!("circular dependency: {}", names.join(", "));
            return Some(Error::new(names.first().copied().unwrap_or_default(), why));
        }
        path.push(*next);
    }
}
