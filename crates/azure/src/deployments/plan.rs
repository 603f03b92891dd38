//! A template where it is to be deployed: what it comes to there, and whether all of it can be had.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arm_template::{Context, Evaluation, NodeKind, Question, Resource, evaluate, placeholder};
use axum::http::{Method, StatusCode};
use serde_json::{Map, Value, json};

use super::inner_ask::{self, Reply};
use super::request::Request;
use crate::ask::{Requester, Trial};
use crate::failure::Failure;
use crate::groups::Group;
use crate::namespaces::profile_of;
use crate::{discovery, subscriptions};

pub(super) const DEPLOYMENTS: &str = "Microsoft.Resources/deployments";
const NAMESPACES: &str = "microsoft.servicebus/namespaces";
/// Modules of one template: each is a deployment that is kept.
const MODULES_MAX: usize = 100;
/// Answers that change what is asked next.
const ROUNDS_MAX: usize = 32;

pub(super) type Answers = BTreeMap<Question, Value>;

pub(super) struct Plan {
    pub requester: Requester,
    pub group: Group,
    pub name: String,
    pub request: Arc<Request>,
    pub started_at: u64,
    context: Context,
}

/// What came of asking for everything without meaning it.
pub(super) struct Tried {
    pub evaluation: Evaluation,
    /// What each resource would be, by its place in the evaluation; none where that depends on what is not known.
    pub told: Vec<Option<Reply>>,
}

impl Plan {
    pub fn new(
        requester: Requester,
        group: Group,
        name: &str,
        request: Request,
        started_at: u64,
    ) -> Plan {
        let base = format!("https://{}", requester.host);
        let context = Context {
            subscription_id: format!("/subscriptions/{}", requester.subscription),
            group_name: group.name.clone(),
            group: group.shown(&requester),
            subscription: subscriptions::shown(&requester),
            tenant: subscriptions::tenant(&requester),
            environment: discovery::cloud(&base, requester.tenant),
            deployment_name: name.to_owned(),
            now: Some(calendar(started_at)),
            answers: Some(Answers::new()),
        };
        let request = Arc::new(request);
        Plan { requester, group, name: name.to_owned(), request, started_at, context }
    }

    pub fn id(&self, resource: &Resource) -> String {
        self.context.resource_id(&resource.kind, &resource.name)
    }

    /// Of a module, or of a deployment beside it.
    pub fn deployment_id(&self, name: &str) -> String {
        self.context.resource_id(DEPLOYMENTS, name)
    }

    /// What the template comes to.
    ///
    /// # Errors
    /// It is none that can be deployed here.
    pub async fn evaluate(&self, answers: &Answers) -> Result<Evaluation, Failure> {
        let request = self.request.clone();
        let context = Context { answers: Some(answers.clone()), ..self.context.clone() };
        let run = move || {
            evaluate(&request.template, &request.given, &context, &|_| true)
                .map_err(|errors| request.invalid(&errors))
        };
        let done = tokio::task::spawn_blocking(run).await;
        let evaluation = done.unwrap_or_else(|_| {
            let message = "The template could not be evaluated.";
            Err(Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalServerError", message))
        })?;
        self.check(&evaluation)?;
        Ok(evaluation)
    }

    /// # Errors
    /// There is more in it than a deployment takes, or something that is not to be had here.
    fn check(&self, evaluation: &Evaluation) -> Result<(), Failure> {
        if evaluation.modules.len() > MODULES_MAX {
            let message = format!(
                "Deployment template validation failed: 'The number of nested deployments is {}, allowed is \
                 {MODULES_MAX}'.",
                evaluation.modules.len()
            );
            return Err(Failure::new(StatusCode::BAD_REQUEST, "InvalidTemplate", message));
        }
        // All are deployments of one group, and kept by their names.
        let mut names = BTreeSet::from([self.name.to_lowercase()]);
        for module in &evaluation.modules {
            if !names.insert(module.name.to_lowercase()) {
                let why = format!(
                    "the nested deployment '{}' has the name of another one, or of the deployment itself",
                    module.name
                );
                return Err(self.request.invalid(&[arm_template::Error::new(&module.at, why)]));
            }
        }
        let mut details = Vec::new();
        let made = evaluation.resources.iter().filter(|resource| !resource.is_existing);
        for resource in made.filter(|resource| !is_ours(&resource.kind)) {
            let Resource { at, kind, name, .. } = resource;
            let provider = kind.split('/').next().unwrap_or_default();
            let why = format!(
                "there is no resource provider '{provider}' here, and a deployment makes all of its template or \
                 nothing"
            );
            let error = arm_template::Error::new(at, format!("'{kind}/{name}': {why}"));
            details.push(json!({
                "code": "InvalidResourceNamespace",
                "message": format!("{}.", self.request.told(&error)),
                "target": self.id(resource),
            }));
        }
        for module in &evaluation.modules {
            let is_here = |group: &String| group.eq_ignore_ascii_case(&self.group.name);
            if !module.group.as_ref().is_none_or(is_here) {
                let why = "a module goes into the resource group of its deployment here";
                let error = arm_template::Error::new(format!("{}.resourceGroup", module.at), why);
                details.push(json!({
                    "code": "OperationNotSupported",
                    "message": format!("{}.", self.request.told(&error)),
                    "target": self.deployment_id(&module.name),
                }));
            }
        }
        self.refused(details)
    }

    /// # Errors
    /// There are details.
    fn refused(&self, details: Vec<Value>) -> Result<(), Failure> {
        if details.is_empty() {
            return Ok(());
        }
        let message = format!(
            "The template deployment '{}' is not valid according to the validation procedure. See inner errors for \
             details.",
            self.name
        );
        let (status, code) = (StatusCode::BAD_REQUEST, "InvalidTemplateDeployment");
        Err(Failure::new(status, code, message).with(details))
    }

    /// Asks for everything without meaning it.
    ///
    /// # Errors
    /// The template is none, or something in it is refused.
    pub async fn tried(&self) -> Result<Tried, Failure> {
        let evaluation = self.answered().await?;
        let trial = Trial { namespaces: planned(&evaluation) };
        let (mut told, mut details) = (Vec::new(), Vec::new());
        for resource in &evaluation.resources {
            if resource.is_existing || !is_known(resource) {
                told.push(None);
                continue;
            }
            let (id, body) = (self.id(resource), body_of(resource));
            let answer =
                inner_ask::ask(&self.requester, &Method::PUT, &id, body, Some(&trial)).await;
            if let Some(error) = answer.error() {
                details.push(detail(&self.request, &resource.at, &id, &error));
            }
            told.push(Some(answer));
        }
        self.refused(details)?;
        Ok(Tried { evaluation, told })
    }

    /// What the template comes to, with answers of what is there now and not its own.
    async fn answered(&self) -> Result<Evaluation, Failure> {
        let mut answers = Answers::new();
        let mut evaluation = self.evaluate(&answers).await?;
        for _ in 0..ROUNDS_MAX {
            let own = self.own_ids(&evaluation);
            let before = answers.len();
            for question in &evaluation.questions {
                if !is_about(question.id(), own.iter().map(String::as_str)) {
                    let told = inner_ask::question(&self.requester, question).await;
                    if told.status.is_success() {
                        answers.insert(question.clone(), told.body);
                    }
                }
            }
            if answers.len() == before {
                break;
            }
            evaluation = self.evaluate(&answers).await?;
        }
        Ok(evaluation)
    }

    fn own_ids(&self, evaluation: &Evaluation) -> Vec<String> {
        let made = evaluation.resources.iter().filter(|resource| !resource.is_existing);
        let modules = evaluation.modules.iter().map(|module| self.deployment_id(&module.name));
        made.map(|resource| self.id(resource)).chain(modules).map(|id| id.to_lowercase()).collect()
    }

    /// Of a node, in lower case.
    pub fn node_id(&self, evaluation: &Evaluation, node: usize) -> Option<String> {
        let id = match evaluation.nodes[node].is {
            NodeKind::Resource(index) => self.id(&evaluation.resources[index]),
            NodeKind::Module(index) => self.deployment_id(&evaluation.modules[index].name),
            NodeKind::Absent | NodeKind::Waits(_) => return None,
        };
        Some(id.to_lowercase())
    }
}

/// Whether an id is one of these, or of something in one of them. All are in lower case.
pub(super) fn is_about<'a>(id: &str, mut of: impl Iterator<Item = &'a str>) -> bool {
    of.any(|of| id.strip_prefix(of).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
}

pub(super) fn is_ours(kind: &str) -> bool {
    let kind = kind.to_ascii_lowercase();
    kind == NAMESPACES || kind.starts_with(&format!("{NAMESPACES}/"))
}

/// Whether nothing of a resource depends on what is not known yet.
pub(super) fn is_known(resource: &Resource) -> bool {
    resource.body.values().all(|value| placeholder::unknown(value).is_none())
}

pub(super) fn are_known(values: &Map<String, Value>) -> bool {
    values.values().all(|value| placeholder::unknown(value).is_none())
}

pub(super) fn body_of(resource: &Resource) -> bytes::Bytes {
    Value::Object(resource.body.clone()).to_string().into()
}

/// One thing that is wrong, with its place.
pub(super) fn detail(request: &Request, at: &str, id: &str, error: &Value) -> Value {
    let message = error["message"].as_str().unwrap_or_default();
    let place = match request.line_of(at) {
        Some(line) => format!("line {line}: {at}"),
        None => at.to_owned(),
    };
    json!({"code": error["code"], "message": format!("{place}: {message}"), "target": id})
}

/// Namespaces that a template makes, with what they take.
fn planned(evaluation: &Evaluation) -> BTreeMap<String, Option<domain::Profile>> {
    let made = evaluation
        .resources
        .iter()
        .filter(|resource| !resource.is_existing && resource.kind.eq_ignore_ascii_case(NAMESPACES));
    made.map(|resource| {
        let sku = resource.body.get("sku").and_then(profile_of);
        (resource.name.to_ascii_lowercase(), sku)
    })
    .collect()
}

/// Year, month, day, hour, minute and second, of milliseconds since 1970.
fn calendar(at_ms: u64) -> [u16; 6] {
    let at = i64::try_from(at_ms).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    let text = at.unwrap_or_default().strftime("%Y %m %d %H %M %S").to_string();
    let mut parts = text.split(' ').map(|part| part.parse().unwrap_or_default());
    [(); 6].map(|()| parts.next().unwrap_or_default())
}
