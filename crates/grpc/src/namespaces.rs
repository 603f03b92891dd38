//! `mayfly.v1.Namespaces`.

use domain::{AuthorizationRule, Profile, Refusal};
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
            let v1::CreateNamespaceRequest { name, authorization_rules, request, profile } = asked;
            let profile = self::profile(profile)?.unwrap_or_default();
            let rules = match authorization_rules {
                Some(given) => rules(given)?,
                None => vec![native::root_rule()],
            };
            let request = Some(request).filter(|request| *request != 0);
            answer(broker.namespaces().create(&name, profile, rules, request).await)
        };
        self.door.call(request, serve).await
    }

    async fn get_namespace(
        &self,
        request: Request<v1::GetNamespaceRequest>,
    ) -> Result<Response<v1::Namespace>, Status> {
        let serve = |broker: Broker, asked: v1::GetNamespaceRequest| async move {
            answer(broker.namespaces().get(&asked.name))
        };
        self.door.call(request, serve).await
    }

    async fn list_namespaces(
        &self,
        request: Request<v1::ListNamespacesRequest>,
    ) -> Result<Response<v1::ListNamespacesResponse>, Status> {
        let serve = |broker: Broker, _: v1::ListNamespacesRequest| async move {
            let namespaces = broker.namespaces().list().into_iter().map(shown).collect();
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
            let name = &asked.name;
            answer(match (rules, profile(asked.profile)?) {
                (None, None) => namespaces.get(name),
                (Some(rules), None) => namespaces.update(name, rules).await,
                (None, Some(profile)) => namespaces.change_profile(name, profile).await,
                // Neither is to be done where the other is refused.
                (Some(_), Some(_)) => {
                    let why = "change its rules and its profile one after the other".to_owned();
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

fn shown(NamespaceInfo { row, entities }: NamespaceInfo) -> v1::Namespace {
    v1::Namespace {
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
