//! Entity management as the Azure SDKs' administration clients speak it: Atom entries and feeds over
//! HTTP, every path that is not one of ours an entity's name.

mod document;
mod duration;
mod failure;
mod path;
mod queue;
#[cfg(test)]
mod tests;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::{CONTENT_TYPE, HOST, IF_MATCH};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use domain::QueueProperties;
use service::{Broker, QueueInfo};

use crate::server::App;
use document::{Entry, Xml};
use failure::Failure;
use path::{Target, Window};

/// Far above the largest description there is.
pub(crate) const BODY_BYTES_MAX: usize = 256 * 1024;
/// Elements and texts of one body.
const NODES_MAX: u32 = 10_000;
/// Echoed, so that a client finds its request in its own log.
const CLIENT_REQUEST_ID: &str = "x-ms-client-request-id";
const ENTRY_TYPE: HeaderValue =
    HeaderValue::from_static("application/atom+xml;type=entry;charset=utf-8");
const FEED_TYPE: HeaderValue =
    HeaderValue::from_static("application/atom+xml;type=feed;charset=utf-8");

/// Answers any request that has no route of its own.
pub(crate) async fn manage(
    State(app): State<App>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Result<Bytes, axum::extract::rejection::BytesRejection>,
) -> Response {
    let request_id = headers.get(CLIENT_REQUEST_ID).cloned();
    let request =
        Request { broker: &app.broker, own: own_address(&headers, &uri), headers: &headers };
    let answer = match body {
        Ok(body) => request.answer(&method, &uri, &body).await,
        Err(_) => Err(Failure::too_large(BODY_BYTES_MAX)),
    };
    let mut response = answer.unwrap_or_else(Failure::into_response);
    if let Some(id) = request_id {
        response.headers_mut().insert(CLIENT_REQUEST_ID, id);
    }
    response
}

/// Scheme and authority as the client reached them: links must lead back here.
fn own_address(headers: &HeaderMap, uri: &Uri) -> String {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let scheme = uri.scheme_str().unwrap_or("http");
    format!("{scheme}://{}", host.or(uri.host()).unwrap_or("localhost"))
}

struct Request<'a> {
    broker: &'a Broker,
    own: String,
    headers: &'a HeaderMap,
}

impl Request<'_> {
    async fn answer(&self, method: &Method, uri: &Uri, body: &[u8]) -> Result<Response, Failure> {
        let query = uri.query();
        let Some(target) = path::target(uri.path(), query) else {
            return Err(Failure::not_found(format!(
                "there is no {}; entities have their names for paths, /$Resources/queues lists them, \
                 and /health, /health/live, /health/ready and /metrics are other ways in",
                uri.path()
            )));
        };
        match (method, target) {
            (&Method::GET, Target::Namespace) => self.namespace(query),
            (&Method::GET, Target::Queues(window)) => self.queues(window, query).await,
            (&Method::GET, Target::Topics(_)) => self.feed("Topics", "topics", query, None, &[]),
            (&Method::GET, Target::Entity(name)) => {
                self.one(StatusCode::OK, &self.broker.get_queue(&name).await?, query)
            }
            (&Method::PUT, Target::Entity(name)) => {
                let text = std::str::from_utf8(body).map_err(|_| Failure::bad_body("not UTF-8"))?;
                match self.headers.contains_key(IF_MATCH) {
                    true => self.update(&name, text, query).await,
                    false => self.create(&name, text, query).await,
                }
            }
            (&Method::DELETE, Target::Entity(name)) => {
                self.broker.delete_queue(&name).await?;
                Ok(StatusCode::OK.into_response())
            }
            (_, Target::Below(path)) => {
                Err(Failure::not_found(format!("there is no {path}: no topic has that name")))
            }
            (method, _) => {
                Err(Failure::not_allowed(format!("{} does not take {method}", uri.path())))
            }
        }
    }

    async fn create(
        &self,
        name: &str,
        body: &str,
        query: Option<&str>,
    ) -> Result<Response, Failure> {
        let mut properties = QueueProperties::default();
        read_queue(body, name, &mut properties)?;
        let queue = self.broker.create_queue(name, properties, None).await?;
        self.one(StatusCode::CREATED, &queue, query)
    }

    async fn update(
        &self,
        name: &str,
        body: &str,
        query: Option<&str>,
    ) -> Result<Response, Failure> {
        // Whether it can be read at all is told before whether there is such a queue.
        read_queue(body, name, &mut QueueProperties::default())?;
        let change = |properties: &mut QueueProperties| {
            let document = parse(body).map_err(|_| unreadable())?;
            let description = description(&document).map_err(|_| unreadable())?;
            queue::read(description, properties)
        };
        let queue = self.broker.update_queue(name, change).await?;
        self.one(StatusCode::OK, &queue, query)
    }

    fn one(
        &self,
        status: StatusCode,
        queue: &QueueInfo,
        query: Option<&str>,
    ) -> Result<Response, Failure> {
        let document = document::alone(|xml| self.queue_entry(xml, queue, query));
        let body = document.map_err(|error| Failure::internal(&error))?;
        Ok((status, [(CONTENT_TYPE, ENTRY_TYPE)], body).into_response())
    }

    fn queue_entry(
        &self,
        xml: &mut Xml,
        queue: &QueueInfo,
        query: Option<&str>,
    ) -> std::io::Result<()> {
        let info = &queue.info;
        let entry = Entry {
            id: self.address(&escaped(&info.name), query),
            title: &info.name,
            published: info.created_at,
            updated: info.updated_at,
        };
        document::entry(xml, &entry, queue::ELEMENT, |xml| queue::write(xml, info))
    }

    /// Ordered by name, so that pages neither miss nor repeat what stays.
    async fn queues(&self, window: Window, query: Option<&str>) -> Result<Response, Failure> {
        let Window { mut skip, top } = window;
        let (mut shown, mut after, mut more) = (Vec::new(), None, true);
        while more && shown.len() <= top {
            let page = self.broker.list_queues(after.as_deref(), "", service::PAGE_MAX).await?;
            let skipped = skip.min(page.queues.len());
            skip -= skipped;
            shown.extend(page.queues.into_iter().skip(skipped));
            more = page.next.is_some();
            after = page.next;
        }
        // One more than is shown tells that there is a next page.
        let next =
            (shown.len() > top).then(|| Window { skip: window.skip.saturating_add(top), top });
        shown.truncate(top);
        self.feed("Queues", "queues", query, next, &shown)
    }

    fn feed(
        &self,
        title: &str,
        kind: &str,
        query: Option<&str>,
        next: Option<Window>,
        queues: &[QueueInfo],
    ) -> Result<Response, Failure> {
        let path = format!("$Resources/{kind}");
        let own = self.address(&path, query);
        let next = next.map(|Window { skip, top }| {
            self.address(&path, Some(&format!("api-version=2021-05&$skip={skip}&$top={top}")))
        });
        let (now, _) = self.broker.now();
        let document = document::alone(|xml| {
            document::feed(xml, title, &own, next.as_deref(), now, |xml| {
                queues.iter().try_for_each(|queue| self.queue_entry(xml, queue, None))
            })
        });
        let body = document.map_err(|error| Failure::internal(&error))?;
        Ok((StatusCode::OK, [(CONTENT_TYPE, FEED_TYPE)], body).into_response())
    }

    /// Standard, because that is whose limits are the defaults (QUOTA-0).
    fn namespace(&self, query: Option<&str>) -> Result<Response, Failure> {
        const NAME: &str = "mayfly";
        let (now, _) = self.broker.now();
        let id = self.address("$namespaceinfo", query);
        let entry = Entry { id, title: NAME, published: now, updated: now };
        let document = document::alone(|xml| {
            document::entry(xml, &entry, "NamespaceInfo", |xml| {
                document::text(xml, "CreatedTime", &document::instant(now))?;
                document::text(xml, "MessagingSKU", "Standard")?;
                document::text(xml, "ModifiedTime", &document::instant(now))?;
                document::text(xml, "Name", NAME)?;
                document::text(xml, "NamespaceType", "Messaging")
            })
        });
        let body = document.map_err(|error| Failure::internal(&error))?;
        Ok((StatusCode::OK, [(CONTENT_TYPE, ENTRY_TYPE)], body).into_response())
    }

    fn address(&self, path: &str, query: Option<&str>) -> String {
        let own = &self.own;
        match query {
            Some(query) => format!("{own}/{path}?{query}"),
            None => format!("{own}/{path}"),
        }
    }
}

/// As a path: the slashes of a name stay.
fn escaped(name: &str) -> String {
    percent_encoding::utf8_percent_encode(name, percent_encoding::NON_ALPHANUMERIC)
        .to_string()
        .replace("%2F", "/")
        .replace("%2D", "-")
        .replace("%2E", ".")
        .replace("%5F", "_")
}

fn unreadable() -> domain::Refusal {
    domain::Refusal::Argument { what: "body", why: "not a description".to_owned() }
}

fn parse(body: &str) -> Result<roxmltree::Document<'_>, Failure> {
    let options = roxmltree::ParsingOptions { nodes_limit: NODES_MAX, ..Default::default() };
    roxmltree::Document::parse_with_options(body, options)
        .map_err(|error| Failure::bad_body(format!("the body is no XML: {error}")))
}

/// The description in an entry, whatever prefixes its namespaces have.
fn description<'a, 'input>(
    document: &'a roxmltree::Document<'input>,
) -> Result<roxmltree::Node<'a, 'input>, Failure> {
    let is_one = |node: &roxmltree::Node<'_, '_>| {
        let name = node.tag_name();
        name.namespace() == Some(document::SERVICE_BUS) && name.name().ends_with("Description")
    };
    document.descendants().find(is_one).ok_or_else(|| {
        Failure::bad_body(format!(
            "the entry holds no description: put a QueueDescription of {} into its content",
            document::SERVICE_BUS
        ))
    })
}

fn read_queue(body: &str, name: &str, into: &mut QueueProperties) -> Result<(), Failure> {
    let document = parse(body)?;
    let description = description(&document)?;
    let element = description.tag_name().name();
    if element != queue::ELEMENT {
        return Err(Failure::bad_body(format!(
            "{element} is not supported; a QueueDescription is"
        )));
    }
    queue::read(description, into).map_err(|refusal| service::Error::new(refusal, name).into())
}
