//! A request to Resource Manager, as its resources read it, and the answers that all of them give.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use auth::Access;
use axum::Json;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use domain::Profile;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Value, json};
use service::Broker;
use uuid::Uuid;

use crate::caller::Caller;
use crate::config::{Config, Messaging};
use crate::failure::Failure;
use crate::runs::Runs;

pub(crate) type Answer = Result<Response, Failure>;

/// Entries of one page, at most and by default.
const PAGE_MAX: usize = 100;
/// Where resources are said to be, unless a client has said it.
pub(crate) const LOCATION: &str = "local";

/// Somebody who is known, and what he asked: what outlives his request, where that sets something going.
#[derive(Clone)]
pub(crate) struct Requester {
    pub config: Config,
    pub broker: Broker,
    pub caller: Caller,
    pub tenant: Uuid,
    pub subscription: Uuid,
    /// The host that was asked, perhaps with its port.
    pub host: String,
    pub peer: Option<SocketAddr>,
    /// What this node carries out.
    pub runs: Runs,
}

/// What a request would come to is asked, and nothing is to be done.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trial {
    /// Namespaces that will be there by then, by their names in lower case, and of what profile, if that is said.
    pub namespaces: BTreeMap<String, Option<Profile>>,
}

/// What is asked, apart from who asks.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub method: &'a Method,
    pub path: &'a str,
    pub query: &'a str,
}

/// A request from somebody who is known.
pub(crate) struct Ask<'a> {
    pub requester: &'a Requester,
    /// `None`: it is meant.
    pub trial: Option<&'a Trial>,
    pub broker: &'a Broker,
    pub caller: &'a Caller,
    /// Of the default namespace and the cluster's operators.
    pub access: &'a Access,
    pub messaging: &'a Messaging,
    pub subscription: Uuid,
    pub method: &'a Method,
    /// The host that was asked, perhaps with its port.
    pub host: &'a str,
    pub path: &'a str,
    pub query: &'a str,
    pub body: Bytes,
}

/// What is said of a resource. The rest is told and not taken.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ResourceBody<P> {
    properties: Option<P>,
    #[serde(rename = "id")]
    _id: Option<IgnoredAny>,
    #[serde(rename = "name")]
    _name: Option<IgnoredAny>,
    #[serde(rename = "type")]
    _type: Option<IgnoredAny>,
    #[serde(rename = "location")]
    _location: Option<IgnoredAny>,
    #[serde(rename = "systemData")]
    _system_data: Option<IgnoredAny>,
}

/// The part of a list that is asked for.
pub(crate) struct Window {
    pub skip: usize,
    pub top: usize,
}

impl Requester {
    pub fn ask<'a>(&'a self, wanted: Wanted<'a>, body: Bytes, trial: Option<&'a Trial>) -> Ask<'a> {
        let Wanted { method, path, query } = wanted;
        Ask {
            requester: self,
            trial,
            broker: &self.broker,
            caller: &self.caller,
            access: &self.config.access,
            messaging: &self.config.messaging,
            subscription: self.subscription,
            method,
            host: &self.host,
            path,
            query,
            body,
        }
    }

    pub fn group_id(&self, group: &str) -> String {
        format!("/subscriptions/{}/resourceGroups/{group}", self.subscription)
    }
}

impl Ask<'_> {
    /// `https://` and the host that was asked.
    pub fn base(&self) -> String {
        format!("https://{}", self.host)
    }

    /// What the body says.
    ///
    /// # Errors
    /// It says nothing of the kind.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_json::from_slice(&self.body).map_err(|error| Failure::unread(&error))
    }

    /// The properties that the body gives a resource.
    ///
    /// # Errors
    /// As [`Ask::read`].
    pub fn properties<P: DeserializeOwned + Default>(&self) -> Result<P, Failure> {
        let ResourceBody { properties, .. } = self.read()?;
        Ok(properties.unwrap_or_default())
    }

    /// # Errors
    /// A number that is none.
    pub fn window(&self) -> Result<Window, Failure> {
        let mut window = Window { skip: 0, top: PAGE_MAX };
        for (name, value) in form_urlencoded::parse(self.query.as_bytes()) {
            let number = || {
                let read = value.trim().parse::<u32>().ok().and_then(|n| usize::try_from(n).ok());
                read.ok_or_else(|| Failure::bad(format!("{name} takes a number from 0 on.")))
            };
            match name.to_ascii_lowercase().as_str() {
                "$skip" => window.skip = number()?,
                "$top" => window.top = number()?.clamp(1, PAGE_MAX),
                _ => (),
            }
        }
        Ok(window)
    }

    /// A page of what is found from [`Window::skip`] on, of which there may be one more than it takes.
    pub fn page(&self, window: &Window, mut found: Vec<Value>) -> Response {
        let has_more = found.len() > window.top;
        found.truncate(window.top);
        let mut body = json!({"value": found});
        if has_more {
            let others = form_urlencoded::parse(self.query.as_bytes()).filter(|(name, _)| {
                !name.eq_ignore_ascii_case("$skip") && !name.eq_ignore_ascii_case("$top")
            });
            let (skip, top) = (window.skip + window.top, window.top);
            let query = form_urlencoded::Serializer::new(String::new())
                .extend_pairs(others)
                .append_pair("$skip", &skip.to_string())
                .append_pair("$top", &top.to_string())
                .finish();
            body["nextLink"] = json!(format!("{}{}?{query}", self.base(), self.path));
        }
        Json(body).into_response()
    }

    /// The part of a short list that is asked for.
    ///
    /// # Errors
    /// As [`Ask::window`].
    pub fn page_of(&self, all: Vec<Value>) -> Answer {
        let window = self.window()?;
        let found = all.into_iter().skip(window.skip).take(window.top + 1).collect();
        Ok(self.page(&window, found))
    }

    pub fn group_id(&self, group: &str) -> String {
        self.requester.group_id(group)
    }
}

/// The answer to what was found, or done.
pub(crate) fn told(body: Value) -> Answer {
    Ok(Json(body).into_response())
}

/// The answer to what is deleted, or was not there.
pub(crate) fn gone(was_there: bool) -> Answer {
    Ok(if was_there { StatusCode::OK } else { StatusCode::NO_CONTENT }.into_response())
}
