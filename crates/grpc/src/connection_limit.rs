//! The connection limit: a client whose connection is one too many is told so, whatever it asks.

use std::collections::HashMap;

use tonic::service::Interceptor;
use tonic::{Code, Request, Status};
use tonic_types::{ErrorDetails, StatusExt};
use wire::v1;

use crate::connection::ConnectionSlot;
use crate::status::DOMAIN;

/// QUOTA-13, ERR-10. Nothing was done, so clients try another node, or this one later.
#[derive(Clone, Copy)]
pub(crate) struct ConnectionLimit;

impl Interceptor for ConnectionLimit {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        let slot = request.extensions().get::<ConnectionSlot>();
        match slot.and_then(|slot| slot.surplus_to) {
            None => Ok(request),
            Some(connections_max) => Err(too_many(connections_max)),
        }
    }
}

fn too_many(connections_max: usize) -> Status {
    let metadata = HashMap::from([
        ("rule".to_owned(), "ERR-10".to_owned()),
        ("tracking_id".to_owned(), service::draw_message_id()),
        ("retry".to_owned(), v1::Retry::Yes.as_str_name().to_owned()),
    ]);
    let details = ErrorDetails::with_error_info("QuotaExceeded", DOMAIN, metadata);
    let why = format!(
        "this node has as many connections as it may, {connections_max}; nothing was done, try \
         another node, or again later"
    );
    Status::with_error_details(Code::ResourceExhausted, why, details)
}

#[cfg(test)]
mod tests {
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
        let status = ask(Some(ConnectionSlot { surplus_to: Some(7), ..Default::default() }))
            .expect_err("no slot");
        assert_eq!(status.code(), Code::ResourceExhausted);
        assert!(status.message().contains("as it may, 7;"), "{status}");
        let info = status.get_details_error_info().expect("details");
        assert_eq!(info.metadata["retry"], "RETRY_YES");
    }
}
