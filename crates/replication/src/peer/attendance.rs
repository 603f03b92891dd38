//! Finding out at once that a peer's process has ended. Its machine says so: it ends the connections. So one call
//! stays open all the time; when it ends, the peer's port is knocked at.

use std::time::Duration;

use tokio::time::sleep;
use tonic::Code;

use super::connection::Client;
use super::knock::Knock;
use super::v1;

/// Before another call is made in the place of one that ended, or was refused.
const AGAIN_AFTER: Duration = Duration::from_millis(300);
/// The same, where the peer takes no call of this node: what has to be said about that is said elsewhere.
const REFUSED_AGAIN_AFTER: Duration = Duration::from_secs(3);
/// The same, of a peer that does not know the call. It may be upgraded.
const UNKNOWN_AGAIN_AFTER: Duration = Duration::from_secs(30);

/// Attends a peer for as long as it is polled.
pub(crate) async fn attend(mut client: Client, knock: Knock) {
    loop {
        let pause = match client.attend(v1::AttendRequest {}).await {
            Ok(answers) => {
                let mut answers = answers.into_inner();
                while let Ok(Some(_)) = answers.message().await {}
                knock.look();
                AGAIN_AFTER
            }
            Err(status) => {
                knock.if_refused(&status);
                match status.code() {
                    Code::Unimplemented => UNKNOWN_AGAIN_AFTER,
                    Code::PermissionDenied | Code::Unauthenticated => REFUSED_AGAIN_AFTER,
                    _ => AGAIN_AFTER,
                }
            }
        };
        sleep(pause).await;
    }
}
