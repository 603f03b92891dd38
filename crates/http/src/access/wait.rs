//! Requests that wait for messages: as long as their proof is good (ENT-12).

use std::pin::pin;
use std::time::Duration;

use auth::Denied;
use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::Response;
use tokio::sync::watch;

use super::{Gate, Requester, Taken};
use crate::messages::WaitEnd;

/// How often it is looked whether a key is gone, while nobody can tell.
const UNDECIDED_LOOK_EVERY: Duration = Duration::from_millis(400);

impl Gate {
    /// Has a request answered, which ends its wait when its key is gone. What is on its way to it by then
    /// is its client's: nobody else would get it.
    pub(super) async fn while_proved(
        &self,
        taken: Taken,
        request: Request,
        next: Next,
    ) -> Response {
        let (end, ended) = watch::channel(false);
        let (mut parts, body) = request.into_parts();
        parts.extensions.insert(WaitEnd(ended));
        let asked = Request::from_parts(parts.clone(), Body::empty());
        let mut answer = pin!(next.run(Request::from_parts(parts, body)));
        let denied = tokio::select! {
            response = &mut answer => return response,
            denied = self.is_shut_out(&taken, Requester::of(&asked)) => denied,
        };
        end.send_replace(true);
        match answer.await {
            response if response.status() == StatusCode::NO_CONTENT => {
                // It was good: nobody has guessed.
                let (refusal, _) = self.guard.refuse(&asked, &denied, denied.to_string());
                refusal
            }
            response => response,
        }
    }

    /// Resolves once a proof that was good is so no more. Tokens count for the whole of a wait, which is
    /// shorter than a minute.
    async fn is_shut_out(&self, taken: &Taken, from: Requester<'_>) -> Denied {
        let mut keys = self.keys.clone();
        let entity = taken.entity.as_deref().map(auth::named_path);
        let entity = entity.and_then(|entity| self.guard.namespace.qualify(&entity).ok());
        let _kept = entity.map(|entity| keys.keep(&entity));
        let mut is_undecided = false;
        loop {
            tokio::select! {
                () = keys.changed() => {}
                () = tokio::time::sleep(UNDECIDED_LOOK_EVERY), if is_undecided => {}
            }
            is_undecided = match self.proof(taken, from).await {
                Ok(Err(denied)) => return denied,
                Ok(Ok(_)) => false,
                Err(_) => true,
            };
        }
    }
}
