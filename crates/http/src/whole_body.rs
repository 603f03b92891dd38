//! Bodies, read to their end, and no more of them than is taken.

use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use axum::http::StatusCode;
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use tokio::time::{Instant, timeout_at};

use crate::failure::Failure;
use crate::{atom, messages};

/// HTTP-23: a body may take so long,
const BEGIN_WITHIN: Duration = Duration::from_secs(10);
/// and as much longer as what came takes at this rate, 16 kB a second.
const BYTES_PER_MS_MIN: u64 = 16;

/// What a body holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyKind {
    /// One message, or several.
    Messages,
    /// An entity's or a rule's description.
    Description,
}

impl BodyKind {
    fn bytes_max(self) -> usize {
        match self {
            BodyKind::Messages => messages::BODY_BYTES_MAX,
            BodyKind::Description => atom::BODY_BYTES_MAX,
        }
    }

    /// ERR-9 for messages; a description so long is none.
    fn too_large(self) -> Failure {
        let max = self.bytes_max();
        let told = |what| format!("the body has more than {max} bytes, {what} may have no more");
        match self {
            BodyKind::Messages => {
                Failure::new(StatusCode::FORBIDDEN, None, told("a request to send"))
            }
            BodyKind::Description => Failure::bad(told("a description")),
        }
    }
}

/// The whole body. One that says beforehand that it is too large is not waited for.
pub(crate) async fn read(body: Body, kind: BodyKind) -> Result<Bytes, Failure> {
    let max = kind.bytes_max();
    if body.size_hint().lower() > max as u64 {
        return Err(kind.too_large());
    }
    let began = Instant::now();
    let mut body = body.into_data_stream();
    let mut whole = BytesMut::new();
    loop {
        let received = u64::try_from(whole.len()).unwrap_or(u64::MAX);
        let by = began + BEGIN_WITHIN + Duration::from_millis(received / BYTES_PER_MS_MIN);
        let Ok(next) = timeout_at(by, body.next()).await else {
            let told = "the body came too slowly; send it again";
            return Err(Failure::new(StatusCode::REQUEST_TIMEOUT, None, told));
        };
        match next {
            None => return Ok(whole.freeze()),
            Some(Ok(part)) if whole.len() + part.len() > max => return Err(kind.too_large()),
            Some(Ok(part)) => whole.extend_from_slice(&part),
            Some(Err(_)) => return Err(Failure::bad("the body ended before it was whole")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row a body's length, whether it is told beforehand, and the status.
    #[tokio::test]
    async fn err_9_http_17_a_body_too_large_is_refused_as_such() {
        use BodyKind::{Description, Messages};
        for (kind, excess, is_told, status) in [
            (Messages, 0, true, None),
            (Messages, 0, false, None),
            (Messages, 1, true, Some(403)),
            (Messages, 1, false, Some(403)),
            (Description, 0, false, None),
            (Description, 1, true, Some(400)),
            (Description, 1, false, Some(400)),
        ] {
            let bytes = Bytes::from(vec![b'x'; kind.bytes_max() + excess]);
            let body = match is_told {
                true => Body::from(bytes),
                false => {
                    let chunk = Ok::<_, std::io::Error>(bytes);
                    Body::from_stream(futures::stream::iter([chunk]))
                }
            };
            let refused = read(body, kind).await.err().map(|failure| failure.status());
            assert_eq!(refused, status, "{kind:?} {excess} {is_told}");
        }
        let broken = futures::stream::iter([
            Ok(Bytes::from_static(b"x")),
            Err(std::io::Error::other("the client is gone")),
        ]);
        let refused = read(Body::from_stream(broken), Messages).await.err();
        assert_eq!(refused.map(|failure| failure.status()), Some(400));
    }
}
