//! `mayfly.v1.Namespaces`.

use domain::{AuthorizationRule, NewNamespace, Profile, Refusal, Span};
use service::{Broker, NamespaceInfo};
use tonic::{Request, Response, Status};
use wire::{native, v1};

use crate::api::namespaces_server::Namespaces;
use crate::door::Door;
use crate::status::{refused, status};

pub(crate) struct NamespacesService {
    pub door: Door,
}

#[tonic::async_trait]
impl Namespaces for NamespacesService {
    async fn create_namespace(
        &self,
        request: Request<v1::CreateNamespaceRequest>,
    ) -> Result<Response<v1::Namespace>, Status> {
        let serve = |broker: Broker, asked: v1::CreateNamespaceRequest| async move {
            let new = NewNamespace {
                name: asked.name,
                profile: profile(asked.profile)?.unwrap_or_default(),
                auto_delete_on_idle: asked.auto_delete_on_idle_ms.map_or(Span::MAX, Span),
                authorization_rules: match asked.authorization_rules {
                    Some(given) => rules(given)?,
                    None => vec![native::root_rule()],
                },
            };
            let request = Some(asked.request).filter(|request| *request != 0);
            answer(broker.namespaces().create(new, request).await)
        };
        self.door.call(request, serve).await
    }

    async fn get_namespace(
        &self,
        request: Request<v1::GetNamespaceRequest>,
    ) -> Result<Response<v1::Namespace>, Status> {
        let serve = |broker: Broker, asked: v1::GetNamespaceRequest| async move {
            answer(broker.namespaces().get(&asked.name).await)
        };
        self.door.call(request, serve).await
    }

    async fn list_namespaces(
        &self,
        request: Request<v1::ListNamespacesRequest>,
    ) -> Result<Response<v1::ListNamespacesResponse>, Status> {
        let serve = |broker: Broker, _: v1::ListNamespacesRequest| async move {
            let namespaces = broker.namespaces();
            namespaces.caught_up().await.map_err(|error| status(&error))?;
            let namespaces = namespaces.list().into_iter().map(shown).collect();
            Ok(Response::new(v1::ListNamespacesResponse { namespaces }))
        };
        self.door.call(request, serve).await
    }

    async fn update_namespace(
        &self,
        request: Request<v1::UpdateNamespaceRequest>,
    ) -> Result<Response<v1::Namespace>, Status> {
        let serve = |broker: Broker, asked: v1::UpdateNamespaceRequest| async move {
            let namespaces = broker.namespaces();
            let rules = asked.authorization_rules.map(rules).transpose()?;
            let (name, window) = (&asked.name, asked.auto_delete_on_idle_ms.map(Span));
            answer(match (rules, profile(asked.profile)?, window) {
                (None, None, None) => namespaces.get(name).await,
                (Some(rules), None, None) => namespaces.update(name, rules).await,
                (None, Some(profile), None) => namespaces.change_profile(name, profile).await,
                (None, None, Some(window)) => {
                    namespaces.set_auto_delete_on_idle(name, window).await
                }
                // None is to be done where another is refused.
                _ => {
                    let why = "change its rules, its profile and when it goes one after the other";
                    let why = why.to_owned();
                    return Err(refused(Refusal::Argument { what: "namespace", why }, ""));
                }
            })
        };
        self.door.call(request, serve).await
    }

    async fn delete_namespace(
        &self,
        request: Request<v1::DeleteNamespaceRequest>,
    ) -> Result<Response<v1::DeleteNamespaceResponse>, Status> {
        let serve = |broker: Broker, asked: v1::DeleteNamespaceRequest| async move {
            let deleted = broker.namespaces().delete(&asked.name, asked.force).await;
            let gone = deleted.map_err(|error| status(&error))?;
            Ok(Response::new(v1::DeleteNamespaceResponse { gone }))
        };
        self.door.call(request, serve).await
    }
}

fn profile(said: i32) -> Result<Option<Profile>, Status> {
    native::profile(said).map_err(|refusal| refused(refusal, ""))
}

fn rules(given: v1::AuthorizationRules) -> Result<Vec<AuthorizationRule>, Status> {
    native::authorization_rules(given).map_err(|refusal| refused(refusal, ""))
}

fn answer(found: service::Result<NamespaceInfo>) -> Result<Response<v1::Namespace>, Status> {
    found.map(|info| Response::new(shown(info))).map_err(|error| status(&error))
}

fn shown(NamespaceInfo { row, idle, entities }: NamespaceInfo) -> v1::Namespace {
    v1::Namespace {
        auto_delete_on_idle_ms: idle.map(|idle| idle.window.0),
        used_until_ms: idle.map(|idle| idle.used_until.0),
        deleting: !row.is_ready(),
        created_at_ms: row.created_at.0,
        modified_at_ms: row.modified_at.0,
        authorization_rules: Some(native::shown_rules(&row.authorization_rules)),
        profile: native::shown_profile(row.profile).into(),
        next_profile: row.next_profile.map_or(0, |next| native::shown_profile(next).into()),
        name: row.name,
        entities,
    }
}
