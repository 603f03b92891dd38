//! Lists, page by page.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use axum::http::HeaderValue;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use domain::{EntityInfo, RuleRow, split_subscription_path};
use service::{Listed, QueueInfo};

use super::document::Xml;
use super::{Request, VERSION, document, entity, write_rule};
use crate::failure::Failure;
use crate::path::{ListFilter, ListedEntry, Window};

const FEED_TYPE: HeaderValue =
    HeaderValue::from_static("application/atom+xml;type=feed;charset=utf-8");
/// How long a client may take from one page to the next to be known again.
const CURSOR_LASTS: Duration = Duration::from_secs(60);
const CURSORS_MAX: usize = 1024;
/// Entries that are looked at together where a filter decides.
const SCANNED: u32 = 200;

/// Which name the pages told lately ended with. Clients say how many entries they have had, and to
/// count those again for every page would take a time that grows with the square of the list. A
/// cursor is a hint; without one the names are counted.
#[derive(Default)]
pub(crate) struct Cursors(Mutex<BTreeMap<(String, usize), (Instant, String)>>);

impl Cursors {
    /// The name after which so many were skipped.
    fn after(&self, list: &str, skip: usize) -> Option<String> {
        let cursors = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let (at, name) = cursors.get(&(list.to_owned(), skip))?;
        (at.elapsed() < CURSOR_LASTS).then(|| name.clone())
    }

    fn keep(&self, list: String, skip: usize, name: String) {
        let mut cursors = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if cursors.len() >= CURSORS_MAX {
            cursors.retain(|_, (at, _)| at.elapsed() < CURSOR_LASTS);
        }
        if cursors.len() >= CURSORS_MAX {
            cursors.clear();
        }
        cursors.insert((list, skip), (Instant::now(), name));
    }

    /// The list does not go so far any more.
    fn forget(&self, list: String, skip: usize) {
        let mut cursors = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        cursors.remove(&(list, skip));
    }
}

impl Request<'_> {
    pub(super) async fn queues(&self, window: Window) -> Result<Response, Failure> {
        self.entities(Listed::Queues, "Queues", window).await
    }

    pub(super) async fn topics(&self, window: Window) -> Result<Response, Failure> {
        self.entities(Listed::Topics, "Topics", window).await
    }

    pub(super) async fn subscriptions(
        &self,
        topic: &str,
        window: Window,
    ) -> Result<Response, Failure> {
        self.entities(Listed::SubscriptionsOf(topic), "Subscriptions", window).await
    }

    /// Ordered by name, so that pages neither miss nor repeat what stays.
    async fn entities(
        &self,
        list: Listed<'_>,
        title: &str,
        window: Window,
    ) -> Result<Response, Failure> {
        let shown = match &window.filter {
            None => self.window(list, title, &window).await?,
            Some(filter) => self.filtered(list, filter, &window).await?,
        };
        let Shown { found, more } = shown;
        let next = (more && window.top > 0).then(|| window.skip.saturating_add(window.top));
        // A queue's or topic's own address is not below that of the list.
        let base = match list {
            Listed::Queues | Listed::Topics => "",
            Listed::SubscriptionsOf(_) => self.asked.path,
        };
        self.feed(title, &window, next, |xml| {
            found.iter().try_for_each(|found| {
                let id = self.asked.entry(base, bare_name(&found.info));
                entity(xml, id, &found.info, self.asked)
            })
        })
    }

    async fn window(
        &self,
        list: Listed<'_>,
        title: &str,
        window: &Window,
    ) -> Result<Shown, Failure> {
        let (skip, top) = (window.skip, window.top);
        let namespace = self.broker.namespace().prefix();
        let cursor = match list {
            Listed::Queues | Listed::Topics => format!("{namespace}{title}"),
            Listed::SubscriptionsOf(topic) => {
                format!("{namespace}{title} {}", topic.to_lowercase())
            }
        };
        let mut after = self.cursors.after(&cursor, skip);
        let mut to_skip = if after.is_some() { 0 } else { skip };
        let mut found: Vec<QueueInfo> = Vec::new();
        // One more than is shown tells that there is a next page.
        while found.len() <= top {
            let count_max = u32::try_from(top + 1 - found.len()).unwrap_or(1);
            let page = self
                .broker
                .entities()
                .list_from(list, after.as_deref(), to_skip, count_max)
                .await?;
            found.extend(page.queues);
            to_skip = 0;
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        let more = found.len() > top;
        found.truncate(top);
        let end = skip.saturating_add(top);
        match found.last() {
            // Some clients ask on behind the last page too: what an earlier page of another length ended
            // with there, before a deletion, would tell them entries again.
            Some(last) if found.len() == top => {
                self.cursors.keep(cursor, end, last.info.name.to_lowercase());
            }
            _ => self.cursors.forget(cursor, end),
        }
        Ok(Shown { found, more })
    }

    /// ATOM-25: what is skipped and counted are the entries that the filter takes, so all before them are
    /// looked at.
    async fn filtered(
        &self,
        list: Listed<'_>,
        filter: &ListFilter,
        window: &Window,
    ) -> Result<Shown, Failure> {
        let (mut after, mut to_skip, mut found) = (None, window.skip, Vec::new());
        loop {
            let page = self.broker.entities().list_from(list, after.as_deref(), 0, SCANNED).await?;
            for one in page.queues {
                let info = &one.info;
                let entry = ListedEntry {
                    name: bare_name(info),
                    created_at: info.created_at,
                    updated_at: info.updated_at,
                    accessed_at: Some(info.accessed_at),
                    message_count: Some(info.counts.total()),
                    size_bytes: Some(info.size_bytes),
                };
                match filter.takes(&entry) {
                    true if to_skip > 0 => to_skip -= 1,
                    true if found.len() == window.top => return Ok(Shown { found, more: true }),
                    true => found.push(one),
                    false => (),
                }
            }
            after = page.next;
            if after.is_none() {
                return Ok(Shown { found, more: false });
            }
        }
    }

    /// RULE-38.
    pub(super) async fn rules(
        &self,
        topic: &str,
        subscription: &str,
        window: Window,
    ) -> Result<Response, Failure> {
        let (skip, top) = (window.skip, window.top);
        let rules = self.broker.rules();
        let (rules, more) = match &window.filter {
            None => {
                let first = u32::try_from(skip).unwrap_or(u32::MAX);
                let count_max = u32::try_from(top + 1).unwrap_or(1);
                let mut found = rules.list(topic, subscription, first, count_max).await?;
                let more = found.len() > top;
                found.truncate(top);
                (found, more)
            }
            Some(filter) => {
                let (mut first, mut found) = (0, Vec::new());
                loop {
                    let page = rules.list(topic, subscription, first, SCANNED).await?;
                    let count = u32::try_from(page.len()).unwrap_or(u32::MAX);
                    first = first.saturating_add(count);
                    found.extend(page.into_iter().filter(|rule| filter.takes(&listed_rule(rule))));
                    if count < SCANNED || found.len() > skip.saturating_add(top) {
                        break;
                    }
                }
                let more = found.len() > skip.saturating_add(top);
                (found.into_iter().skip(skip).take(top).collect(), more)
            }
        };
        let next = (more && top > 0).then(|| skip.saturating_add(top));
        self.feed("Rules", &window, next, |xml| {
            rules.iter().try_for_each(|row| {
                write_rule(xml, self.asked.entry(self.asked.path, &row.name), row)
            })
        })
    }

    /// `next`: how many the page after this one skips.
    fn feed(
        &self,
        title: &str,
        window: &Window,
        next: Option<usize>,
        entries: impl FnOnce(&mut Xml) -> std::io::Result<()>,
    ) -> Result<Response, Failure> {
        let asked = self.asked;
        let version = asked.version();
        let version = version.as_deref().unwrap_or(VERSION);
        let next = next.map(|skip| {
            let filter = window.filter.as_ref().map(|filter| {
                let text = form_urlencoded::byte_serialize(filter.text.as_bytes());
                format!("&$filter={}", text.collect::<String>())
            });
            let (top, filter) = (window.top, filter.unwrap_or_default());
            let query = format!("api-version={version}&$skip={skip}&$top={top}{filter}");
            asked.address(asked.path, Some(&query))
        });
        let (now, _) = self.broker.cluster().now_here();
        let document = document::alone(|xml| {
            document::feed(xml, title, &asked.own(), next.as_deref(), now, entries)
        });
        let body = document.map_err(|error| Failure::internal(&error))?;
        Ok((StatusCode::OK, [(CONTENT_TYPE, FEED_TYPE)], body).into_response())
    }
}

/// One page of a list, and whether there is another.
struct Shown {
    found: Vec<QueueInfo>,
    more: bool,
}

fn bare_name(info: &EntityInfo) -> &str {
    split_subscription_path(&info.name).map_or(&info.name, |(_, subscription)| subscription)
}

fn listed_rule(rule: &RuleRow) -> ListedEntry<'_> {
    ListedEntry {
        name: &rule.name,
        created_at: rule.created_at,
        updated_at: rule.created_at,
        accessed_at: None,
        message_count: None,
        size_bytes: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_where_a_page_of_its_list_ended() {
        let cursors = Cursors::default();
        cursors.keep("queues".to_owned(), 100, "m".to_owned());
        assert_eq!(cursors.after("queues", 100).as_deref(), Some("m"));
        assert_eq!(cursors.after("queues", 200), None);
        assert_eq!(cursors.after("topics", 100), None);
        cursors.forget("queues".to_owned(), 100);
        assert_eq!(cursors.after("queues", 100), None);
        for skip in 0..10 * CURSORS_MAX {
            cursors.keep("queues".to_owned(), skip, "x".to_owned());
        }
        let kept = cursors.0.lock().unwrap().len();
        assert!(kept <= CURSORS_MAX, "{kept} kept");
    }
}
