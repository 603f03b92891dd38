//! What is asked to be deployed: a template with values for its parameters.

use std::collections::BTreeMap;

use arm_template::{Error, source};
use axum::http::StatusCode;
use bytes::Bytes;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use crate::failure::Failure;

/// Of what is wrong with a template so much is told.
const TOLD_MAX: usize = 10;

#[derive(Clone)]
pub(super) struct Request {
    /// As it was sent, with the lines of the template.
    sent: String,
    pub template: Value,
    pub given: BTreeMap<String, Value>,
    /// Of what would change, the ids alone.
    pub ids_only: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Body {
    properties: Properties,
    #[serde(rename = "location")]
    _location: Option<IgnoredAny>,
    #[serde(rename = "tags")]
    _tags: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Properties {
    template: Option<Value>,
    parameters: Option<Map<String, Value>>,
    mode: Option<String>,
    template_link: Option<Value>,
    parameters_link: Option<Value>,
    on_error_deployment: Option<Value>,
    what_if_settings: Option<WhatIfSettings>,
    extension_configs: Option<Value>,
    #[serde(rename = "validationLevel")]
    _validation_level: Option<IgnoredAny>,
    #[serde(rename = "debugSetting")]
    _debug_setting: Option<IgnoredAny>,
    #[serde(rename = "expressionEvaluationOptions")]
    _expression_evaluation_options: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WhatIfSettings {
    result_format: Option<String>,
}

impl Request {
    /// # Errors
    /// As [`Request::read`].
    pub fn of(body: &Bytes) -> Result<Request, Failure> {
        let text = std::str::from_utf8(body).map_err(|_| unread("it is no text in UTF-8"))?;
        Request::read(text)
    }

    /// # Errors
    /// It is none, or asks for what there is not.
    pub fn read(text: &str) -> Result<Request, Failure> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let json = source::read(text).map_err(|why| unread(&why))?;
        let body: Body = serde_json::from_value(json).map_err(|error| Failure::unread(&error))?;
        let of = body.properties;
        let is_some = |of: &Option<Value>| of.as_ref().is_some_and(|of| !of.is_null());
        for (is_asked, what) in [
            (
                of.mode.as_deref().is_some_and(|mode| !mode.eq_ignore_ascii_case("Incremental")),
                "deployments in the mode Complete, which delete what a template does not name: deploy in the mode \
                 Incremental",
            ),
            (
                is_some(&of.template_link),
                "templates behind links (templateLink): put the template into the request",
            ),
            (
                is_some(&of.parameters_link),
                "parameters behind links (parametersLink): put them into the request",
            ),
            (is_some(&of.on_error_deployment), "deployments to go back to (onErrorDeployment)"),
            (is_some(&of.extension_configs), "extensions of templates (extensionConfigs)"),
        ] {
            if is_asked {
                return Err(Failure::not_here(what));
            }
        }
        let Some(template) = of.template.filter(Value::is_object) else {
            return Err(unread("'properties.template' is missing, an object"));
        };
        let mut given = BTreeMap::new();
        for (name, value) in of.parameters.unwrap_or_default() {
            match value.get("value") {
                Some(value) => drop(given.insert(name, value.clone())),
                None if value.get("reference").is_some_and(|of| !of.is_null()) => {
                    return Err(Failure::not_here("key vaults: give the value of each parameter"));
                }
                None => drop(given.insert(name, Value::Null)),
            }
        }
        let settings = of.what_if_settings.and_then(|settings| settings.result_format);
        let ids_only = settings.is_some_and(|it| it.eq_ignore_ascii_case("ResourceIdOnly"));
        Ok(Request { sent: text.to_owned(), template, given, ids_only })
    }

    /// What [`Request::read`] reads again.
    pub fn text(&self) -> &str {
        &self.sent
    }

    /// As Bicep has it, or another that goes with the template.
    pub fn template_hash(&self) -> String {
        let of_bicep = self.template.pointer("/metadata/_generator/templateHash");
        let of_bicep = of_bicep.and_then(Value::as_str).map(str::to_owned);
        of_bicep.unwrap_or_else(|| {
            // FNV-1a.
            let text = self.template.to_string();
            let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
            hash.to_string()
        })
    }

    /// The line of the template, from 1, that a path in it leads to; none where it has only one.
    pub fn line_of(&self, path: &str) -> Option<usize> {
        const TEMPLATE: &str = "properties.template";
        let start = source::line_of(&self.sent, TEMPLATE)?;
        let line = source::line_of(&self.sent, &format!("{TEMPLATE}.{path}"))? + 1 - start;
        let is_long = source::line_of(&self.sent, &format!("{TEMPLATE}.resources"))? > start;
        is_long.then_some(line)
    }

    /// An error with its place.
    pub fn told(&self, error: &Error) -> String {
        match self.line_of(&error.at) {
            Some(line) => format!("line {line}: {error}"),
            None => error.to_string(),
        }
    }

    /// A template that cannot be deployed, whatever there is.
    pub fn invalid(&self, errors: &[Error]) -> Failure {
        let told: Vec<String> = errors.iter().take(TOLD_MAX).map(|one| self.told(one)).collect();
        let more = errors.len().saturating_sub(TOLD_MAX);
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        let message =
            format!("Deployment template validation failed: '{}{more}'.", told.join("; "));
        let violations = errors.iter().take(TOLD_MAX).map(|error| {
            json!({
                "type": "TemplateViolation",
                "info": {
                    "lineNumber": self.line_of(&error.at).unwrap_or_default(),
                    "linePosition": 0,
                    "path": error.at,
                },
            })
        });
        Failure::new(StatusCode::BAD_REQUEST, "InvalidTemplate", message)
            .informed(violations.collect())
    }
}

fn unread(why: &str) -> Failure {
    Failure::new(
        StatusCode::BAD_REQUEST,
        "InvalidRequestContent",
        format!("The request content was invalid: {}.", domain::Abridged(why)),
    )
}
