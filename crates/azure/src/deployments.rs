//! Deployments of templates: they are checked as a whole, and then carried out one resource after another, each by what
//! answers a client that puts it. A deployment whose node ends is carried on by the first node that is asked of it.
//!
//! Reading order: what is asked for; how a template is evaluated and tried; what carries it out; what it would change; how
//! it is told.

mod carrier;
mod inner_ask;
mod plan;
mod request;
mod shown;
mod unit;
mod what_if;

use axum::http::header::{HeaderName, RETRY_AFTER};
use axum::http::{Method, StatusCode};
use axum::response::IntoResponse;
use serde_json::json;
use service::{Broker, draw_uuid};
use uuid::Uuid;

use crate::ask::{Answer, Ask, gone, told};
use crate::failure::Failure;
use crate::groups::Group;
use crate::path::DeploymentPart;
use crate::records::{self, Record, State, Stored};
use crate::runs::Permit;
use carrier::Carrier;
use plan::Plan;
use request::Request;
use unit::active;

const NAME_CHARS_MAX: usize = 64;
const OPERATION_HEADER: HeaderName = HeaderName::from_static("azure-asyncoperation");
/// When to look again whether it is over, in seconds.
const AFTER_S: u32 = 1;
const VERSION: &str = "2025-04-01";
pub(crate) async fn list(ask: &Ask<'_>, group: &str) -> Answer {
    if *ask.method != Method::GET {
        return Err(Failure::not_allowed(ask.method));
    }
    let group = Group::find(ask, group)?;
    let wanted = wanted_state(ask)?;
    let is_wanted = |record: &Record| {
        wanted.as_ref().is_none_or(|wanted| wanted.eq_ignore_ascii_case(record.state.name()))
    };
    let records = records::all(ask.broker, &group.name);
    let found = records.iter().filter(|record| is_wanted(record));
    ask.page_of(found.map(|record| shown::deployment(ask.requester, record)).collect())
}

/// # Errors
/// A filter of another kind.
fn wanted_state(ask: &Ask<'_>) -> Result<Option<String>, Failure> {
    let filter = form_urlencoded::parse(ask.query.as_bytes())
        .find(|(name, _)| name.eq_ignore_ascii_case("$filter"))
        .map(|(_, filter)| filter.into_owned())
        .filter(|filter| !filter.trim().is_empty());
    let Some(filter) = filter else { return Ok(None) };
    match filter.trim().split_once(" eq ") {
        Some((name, value)) if name.trim().eq_ignore_ascii_case("provisioningState") => {
            Ok(Some(value.trim().trim_matches('\'').to_owned()))
        }
        _ => Err(Failure::bad("A $filter of deployments is provisioningState eq '…'.")),
    }
}

pub(crate) async fn answer(
    ask: &Ask<'_>,
    group: &str,
    name: &str,
    part: &DeploymentPart,
) -> Answer {
    let group = Group::find(ask, group)?;
    let of = Deployments { ask, group, name };
    match (part, ask.method) {
        (DeploymentPart::Itself, &Method::GET) => {
            let record = of.carried_on().await?;
            told(shown::deployment(ask.requester, &record))
        }
        (DeploymentPart::Itself, &Method::HEAD) => Ok(match of.find() {
            Ok(_) => StatusCode::NO_CONTENT.into_response(),
            Err(_) => StatusCode::NOT_FOUND.into_response(),
        }),
        (DeploymentPart::Itself, &Method::PUT) => of.put().await,
        (DeploymentPart::Itself, &Method::DELETE) => of.delete().await,
        (DeploymentPart::Validate, &Method::POST) => of.validate().await,
        (DeploymentPart::WhatIf, &Method::POST) => of.what_if().await,
        (DeploymentPart::Cancel, &Method::POST) => of.cancel().await,
        (DeploymentPart::Operations, &Method::GET) => {
            let record = of.carried_on().await?;
            ask.page_of(shown::operations(ask.requester, &record))
        }
        (DeploymentPart::Operation { id }, &Method::GET) => {
            let record = of.find()?.record;
            let mut all = shown::operations(ask.requester, &record).into_iter();
            let found = all.find(|one| one["operationId"] == json!(id));
            found.map_or_else(
                || {
                    let id = domain::Excerpt(id);
                    let message = format!("Deployment operation '{id}' could not be found.");
                    Err(Failure::not_found("DeploymentOperationNotFound", message))
                },
                told,
            )
        }
        (DeploymentPart::Status, &Method::GET) => of.status().await,
        (DeploymentPart::Absent { kind }, _) => {
            Err(Failure::not_here(&format!("'{}' of deployments", domain::Excerpt(kind))))
        }
        _ => Err(Failure::not_allowed(ask.method)),
    }
}

/// One deployment, there or not.
struct Deployments<'a> {
    ask: &'a Ask<'a>,
    group: Group,
    name: &'a str,
}

impl Deployments<'_> {
    fn broker(&self) -> &Broker {
        self.ask.broker
    }

    fn find(&self) -> Result<Stored, Failure> {
        records::find(self.broker(), &self.group.name, self.name).ok_or_else(|| {
            let message =
                format!("Deployment '{}' could not be found.", domain::Excerpt(self.name));
            Failure::not_found("DeploymentNotFound", message)
        })
    }

    fn now_ms(&self) -> u64 {
        self.broker().cluster().now_here().0.0
    }

    /// As it is; where the node that carried it out has ended, this one goes on with it.
    async fn carried_on(&self) -> Result<Record, Failure> {
        let kept = self.find()?;
        if !kept.is_silent(self.now_ms()) {
            return Ok(kept.record);
        }
        // A module is carried on with what it is a module of.
        let of = kept.record.of.as_ref().map(|(name, _)| name.as_str());
        let root = records::find(self.broker(), &self.group.name, of.unwrap_or(self.name));
        if let Some(root) = root.filter(|root| root.is_silent(self.now_ms())) {
            self.carry_on(root.record).await?;
        }
        Ok(self.find()?.record)
    }

    async fn carry_on(&self, mut record: Record) -> Result<(), Failure> {
        let Ok(permit) = self.permit(&record.run) else { return Ok(()) };
        let text = records::request(self.broker(), &record);
        let request = text.and_then(|text| Request::read(&text).ok());
        let Some(request) = request else {
            record.state = State::Failed;
            record.ended_at = Some(self.now_ms());
            let message = "The node that carried it out has ended, and what was asked for is not known any more. \
                           Deploy it again.";
            record.error = Some(json!({"code": "DeploymentFailed", "message": message}));
            return records::put(self.broker(), &record).await;
        };
        tracing::info!(
            deployment = record.name,
            node = record.owner,
            "carrying on a deployment whose node is silent"
        );
        record.owner = self.broker().cluster().node();
        record.beats += 1;
        records::put(self.broker(), &record).await?;
        let plan = self.plan(&record.name, request, record.started_at, &record.host);
        tokio::spawn(Carrier::new(plan, record, permit).run());
        Ok(())
    }

    fn permit(&self, run: &str) -> Result<Permit, Failure> {
        self.ask.requester.runs.begin(run).ok_or_else(|| {
            let message = "This node carries out as many deployments as it does at a time.";
            Failure::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message).after_s(5)
        })
    }

    fn plan(&self, name: &str, request: Request, started_at: u64, host: &str) -> Plan {
        let mut requester = self.ask.requester.clone();
        host.clone_into(&mut requester.host);
        Plan::new(requester, self.group.clone(), name, request, started_at)
    }

    /// Of what is asked for now.
    fn asked(&self) -> Result<Plan, Failure> {
        check_name(self.name)?;
        let request = Request::of(&self.ask.body)?;
        Ok(self.plan(self.name, request, self.now_ms(), self.ask.host))
    }

    async fn put(&self) -> Answer {
        let before = self.find().ok();
        if let Some(kept) = before.as_ref().filter(|kept| kept.is_carried_out(self.now_ms())) {
            return Err(active(&kept.record));
        }
        let plan = self.asked()?;
        let evaluation = plan.tried().await?.evaluation;
        let run = Uuid::from_bytes(draw_uuid()).to_string();
        let permit = self.permit(&run)?;
        records::make_room(self.broker()).await?;
        if before.is_some() {
            records::forget(self.broker(), &self.group.name, self.name).await?;
        }
        let pieces = records::pieces(plan.request.text());
        let record = Record {
            group: self.group.name.clone(),
            name: self.name.to_owned(),
            run,
            started_at: plan.started_at,
            owner: self.broker().cluster().node(),
            host: self.ask.host.to_owned(),
            template_hash: plan.request.template_hash(),
            parameters: evaluation.parameters,
            request_parts: pieces.len(),
            ..Record::default()
        };
        records::put(self.broker(), &record).await?;
        if let Err(failure) = records::put_request(self.broker(), &record.run, &pieces).await {
            // Where this cannot be done either, whoever asks for it finds that it has failed.
            let _ = records::forget(self.broker(), &record.group, &record.name).await;
            return Err(failure);
        }
        let body = axum::Json(shown::deployment(self.ask.requester, &record));
        let status = if before.is_some() { StatusCode::OK } else { StatusCode::CREATED };
        let at = format!(
            "{}{}/operationStatuses/{}?api-version={VERSION}",
            self.ask.base(),
            shown::id(self.ask.requester, &record),
            record.run
        );
        tokio::spawn(Carrier::new(plan, record, permit).run());
        let headers = [(OPERATION_HEADER, at), (RETRY_AFTER, AFTER_S.to_string())];
        Ok((status, headers, body).into_response())
    }

    async fn validate(&self) -> Answer {
        let plan = self.asked()?;
        let tried = plan.tried().await?;
        told(shown::validated(&plan, &tried))
    }

    async fn what_if(&self) -> Answer {
        let plan = self.asked()?;
        told(what_if::answer(&plan, self.ask).await)
    }

    async fn cancel(&self) -> Answer {
        let Stored { record, .. } = self.find()?;
        if record.state.is_over() {
            let message = format!(
                "The deployment '{}' cannot be cancelled: it is over, and its state is '{}'.",
                record.name,
                record.state.name()
            );
            return Err(Failure::new(StatusCode::CONFLICT, "DeploymentCannotBeCancelled", message));
        }
        let run = record.of.as_ref().map_or(&record.run, |(_, run)| run);
        records::cancel(self.broker(), run).await?;
        gone(false)
    }

    async fn delete(&self) -> Answer {
        let Ok(kept) = self.find() else { return gone(false) };
        if kept.is_carried_out(self.now_ms()) {
            let message = format!("The deployment '{}' is running; cancel it first.", self.name);
            return Err(Failure::new(StatusCode::CONFLICT, "DeploymentActive", message));
        }
        records::forget(self.broker(), &self.group.name, self.name).await?;
        gone(false)
    }

    async fn status(&self) -> Answer {
        let record = self.carried_on().await?;
        let mut body = json!({"status": record.state.name()});
        if let Some(error) = &record.error {
            body["error"] = error.clone();
        }
        match record.state.is_over() {
            true => told(body),
            false => {
                let after = [(RETRY_AFTER, AFTER_S.to_string())];
                Ok((after, axum::Json(body)).into_response())
            }
        }
    }
}

fn check_name(name: &str) -> Result<(), Failure> {
    let is_allowed = |c: char| c.is_alphanumeric() || "-_.()".contains(c);
    let chars = name.chars().count();
    match (1..=NAME_CHARS_MAX).contains(&chars) && name.chars().all(is_allowed) {
        true => Ok(()),
        false => {
            let message = format!(
                "The provided deployment name '{}' has 1 to {NAME_CHARS_MAX} letters, digits and '-_.()'.",
                domain::Excerpt(name)
            );
            Err(Failure::new(StatusCode::BAD_REQUEST, "InvalidDeploymentName", message))
        }
    }
}
