//! `mayfly.v1.Support`.

use prost::Message;
use service::{Broker, Untold};
use tonic::{Code, Request, Response, Status};
use wire::v1;

use crate::api::support_server::Support;
use crate::door::Door;
use crate::node_facts::NODE_REPORT;

pub(crate) struct SupportService {
    pub door: Door,
}

#[tonic::async_trait]
impl Support for SupportService {
    async fn get_node_report(
        &self,
        request: Request<v1::GetNodeReportRequest>,
    ) -> Result<Response<v1::NodeReport>, Status> {
        let serve = |broker: Broker, asked: v1::GetNodeReportRequest| async move {
            let node = asked.node;
            let told =
                broker.cluster().inquire(node, NODE_REPORT, asked.encode_to_vec().into()).await;
            let read = |told| v1::NodeReport::decode(told).map_err(|_| Untold::Unknown);
            told.and_then(read).map(Response::new).map_err(|why| {
                let code = match why {
                    Untold::Silent => Code::Unavailable,
                    Untold::Unknown => Code::FailedPrecondition,
                };
                Status::new(code, format!("node {node} is not known of: {why}"))
            })
        };
        self.door.call(request, serve).await
    }
}
