//! Lists, page by page.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use axum::http::HeaderValue;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use domain::subscription_path;
use service::{Listed, QueueInfo};

use super::document::Xml;
use super::{Request, document, entity, escaped, rule_path, write_rule};
use crate::failure::Failure;
use crate::path::Window;

const FEED_TYPE: HeaderValue =
    HeaderValue::from_static("application/atom+xml;type=feed;charset=utf-8");
/// How long a client may take from one page to the next to be known again.
const CURSOR_LASTS: Duration = Duration::from_secs(60);
const CURSORS_MAX: usize = 1024;

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
        self.entities(Listed::Queues, "Queues", "$Resources/Queues".to_owned(), window).await
    }

    pub(super) async fn topics(&self, window: Window) -> Result<Response, Failure> {
        self.entities(Listed::Topics, "Topics", "$Resources/Topics".to_owned(), window).await
    }

    pub(super) async fn subscriptions(
        &self,
        topic: &str,
        window: Window,
    ) -> Result<Response, Failure> {
        let path = format!("{}/Subscriptions", escaped(topic));
        self.entities(Listed::SubscriptionsOf(topic), "Subscriptions", path, window).await
    }

    /// Ordered by name, so that pages neither miss nor repeat what stays.
    async fn entities(
        &self,
        list: Listed<'_>,
        title: &str,
        path: String,
        window: Window,
    ) -> Result<Response, Failure> {
        let Window { skip, top } = window;
        let cursor = path.to_ascii_lowercase();
        let mut after = self.cursors.after(&cursor, skip);
        let mut to_skip = if after.is_some() { 0 } else { skip };
        let mut shown: Vec<QueueInfo> = Vec::new();
        // One more than is shown tells that there is a next page.
        while shown.len() <= top {
            let count_max = u32::try_from(top + 1 - shown.len()).unwrap_or(1);
            let page = self
                .broker
                .entities()
                .list_from(list, after.as_deref(), to_skip, count_max)
                .await?;
            shown.extend(page.queues);
            to_skip = 0;
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        let more = shown.len() > top;
        shown.truncate(top);
        let end = skip.saturating_add(top);
        let next = (more && top > 0).then_some(Window { skip: end, top });
        match shown.last() {
            // Some clients ask on behind the last page too: what an earlier page of another length ended
            // with there, before a deletion, would tell them entries again.
            Some(last) if shown.len() == top => {
                self.cursors.keep(cursor, end, last.info.name.to_lowercase());
            }
            _ => self.cursors.forget(cursor, end),
        }
        self.feed(title, &path, next, |xml| {
            shown.iter().try_for_each(|found| {
                let id = self.asked.address_with(&escaped(&found.info.name), None);
                entity(xml, id, &found.info, self.asked)
            })
        })
    }

    /// RULE-38.
    pub(super) async fn rules(
        &self,
        topic: &str,
        subscription: &str,
        window: Window,
    ) -> Result<Response, Failure> {
        let Window { skip, top } = window;
        let first = u32::try_from(skip).unwrap_or(u32::MAX);
        let count_max = u32::try_from(top + 1).unwrap_or(1);
        let mut rules = self.broker.rules().list(topic, subscription, first, count_max).await?;
        let more = rules.len() > top;
        rules.truncate(top);
        let next = (more && top > 0).then(|| Window { skip: skip.saturating_add(top), top });
        let path = format!("{}/Rules", escaped(&subscription_path(topic, subscription)));
        self.feed("Rules", &path, next, |xml| {
            rules.iter().try_for_each(|row| {
                let path = rule_path(topic, subscription, &row.name);
                write_rule(xml, self.asked.address_with(&path, None), row)
            })
        })
    }

    fn feed(
        &self,
        title: &str,
        path: &str,
        next: Option<Window>,
        entries: impl FnOnce(&mut Xml) -> std::io::Result<()>,
    ) -> Result<Response, Failure> {
        let own = self.asked.address(path);
        let version = self.asked.version().filter(|version| is_plain(version));
        let version = version.as_deref().unwrap_or("2021-05");
        let next = next.map(|Window { skip, top }| {
            let query = format!("api-version={version}&$skip={skip}&$top={top}");
            self.asked.address_with(path, Some(&query))
        });
        let (now, _) = self.broker.cluster().now_here();
        let document =
            document::alone(|xml| document::feed(xml, title, &own, next.as_deref(), now, entries));
        let body = document.map_err(|error| Failure::internal(&error))?;
        Ok((StatusCode::OK, [(CONTENT_TYPE, FEED_TYPE)], body).into_response())
    }
}

/// Whether it can stand in a query as it is.
fn is_plain(version: &str) -> bool {
    version.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
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
