//! The connection limit: a client whose connection is one too many is told so, whatever it asks.

use limits::ClientInfo;
use tonic::service::Interceptor;
use tonic::{Request, Status};

use crate::connection::ConnectionSlot;
use crate::status::exceeded;

/// QUOTA-13, ERR-10. Nothing was done, so clients try another node, or this one later.
#[derive(Clone, Copy)]
pub(crate) struct ConnectionLimit;

impl Interceptor for ConnectionLimit {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        let slot = request.extensions().get::<ConnectionSlot>();
        match slot.and_then(|slot| slot.surplus) {
            None => {
                introduce(&request);
                Ok(request)
            }
            Some(surplus) => Err(exceeded(&surplus, "")),
        }
    }
}

/// What the client says of itself with its first request.
fn introduce(request: &Request<()>) {
    let Some(slot) =
        request.extensions().get::<ConnectionSlot>().and_then(|slot| slot.slot.as_ref())
    else {
        return;
    };
    slot.introduce(|| {
        let agent = request.metadata().get("user-agent").and_then(|agent| agent.to_str().ok());
        ClientInfo::new("", agent.unwrap_or_default())
    });
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use limits::{Exceeded, Limit};
    use tonic::Code;
    use tonic_types::StatusExt;

    use super::*;

    #[test]
    fn quota_13_one_too_many_is_told_so() {
        let ask = |slot: Option<ConnectionSlot>| {
            let mut request = Request::new(());
            if let Some(slot) = slot {
                request.extensions_mut().insert(slot);
            }
            ConnectionLimit.call(request)
        };
        assert!(ask(None).is_ok() && ask(Some(ConnectionSlot::default())).is_ok());
        let surplus = Exceeded { limit: Limit::Connections, max: 7, wait: Duration::ZERO };
        let slot = ConnectionSlot { surplus: Some(surplus), ..Default::default() };
        let status = ask(Some(slot)).expect_err("no slot");
        assert_eq!(status.code(), Code::ResourceExhausted);
        assert!(status.message().contains("as it may, 7;"), "{status}");
        let info = status.get_details_error_info().expect("details");
        assert_eq!(info.metadata["retry"], "RETRY_YES");
    }
}
