//! `mayfly.v1.Faults`.

use domain::FaultRuleRow;
use service::Broker;
use tonic::{Request, Response, Status};
use wire::v1;

use crate::api::faults_server::Faults;
use crate::door::Door;
use crate::status::status;

pub(crate) struct FaultsService {
    pub door: Door,
}

#[tonic::async_trait]
impl Faults for FaultsService {
    async fn put_rule(
        &self,
        request: Request<v1::PutFaultRuleRequest>,
    ) -> Result<Response<v1::PutFaultRuleResponse>, Status> {
        let serve = |broker: Broker, asked: v1::PutFaultRuleRequest| async move {
            let put = broker.cluster().put_fault_rule(asked.name, asked.rule).await;
            let silent = put.map_err(|error| status(&error))?;
            Ok(Response::new(v1::PutFaultRuleResponse { silent }))
        };
        self.door.call(request, serve).await
    }

    async fn remove_rules(
        &self,
        request: Request<v1::RemoveFaultRulesRequest>,
    ) -> Result<Response<v1::RemoveFaultRulesResponse>, Status> {
        let serve = |broker: Broker, asked: v1::RemoveFaultRulesRequest| async move {
            let name = Some(asked.name).filter(|name| !name.is_empty());
            let removed = broker.cluster().remove_fault_rules(name).await;
            let silent = removed.map_err(|error| status(&error))?;
            Ok(Response::new(v1::RemoveFaultRulesResponse { silent }))
        };
        self.door.call(request, serve).await
    }

    async fn list_rules(
        &self,
        request: Request<v1::ListFaultRulesRequest>,
    ) -> Result<Response<v1::ListFaultRulesResponse>, Status> {
        let serve = |broker: Broker, _: v1::ListFaultRulesRequest| async move {
            let found = broker.cluster().fault_rules().await.map_err(|error| status(&error))?;
            let rules = found.rules.into_iter().map(shown).collect();
            Ok(Response::new(v1::ListFaultRulesResponse { rules, silent: found.silent }))
        };
        self.door.call(request, serve).await
    }
}

fn shown((rule, events, hits): (FaultRuleRow, u64, u64)) -> v1::FaultRule {
    let FaultRuleRow { name, text, added_at, ends_at } = rule;
    v1::FaultRule {
        name,
        rule: text,
        added_at_ms: added_at.0,
        ends_at_ms: ends_at.map(|at| at.0),
        events,
        hits,
    }
}
