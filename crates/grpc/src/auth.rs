//! Optional credentials: a shared secret as a bearer token.

use std::sync::Arc;

use tonic::service::Interceptor;
use tonic::{Request, Status};

/// Lets requests pass that carry `authorization: Bearer <secret>`; without a secret, all.
#[derive(Clone)]
pub(crate) struct Doorman {
    expected: Option<Arc<str>>,
}

impl Doorman {
    pub fn new(secret: Option<&str>) -> Doorman {
        Doorman { expected: secret.map(|secret| format!("Bearer {secret}").into()) }
    }
}

impl Interceptor for Doorman {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        let Some(expected) = &self.expected else { return Ok(request) };
        match request.metadata().get("authorization") {
            Some(given) if same(given.as_bytes(), expected.as_bytes()) => Ok(request),
            Some(_) => {
                Err(Status::unauthenticated("the bearer token is not this cluster's secret"))
            }
            None => Err(Status::unauthenticated("send the secret as 'authorization: Bearer …'")),
        }
    }
}

/// Compares in a time that depends on the lengths only.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(secret: Option<&str>, given: Option<&str>) -> bool {
        let mut request = Request::new(());
        if let Some(given) = given {
            let value = given.parse().expect("a header value");
            request.metadata_mut().insert("authorization", value);
        }
        Doorman::new(secret).call(request).is_ok()
    }

    #[test]
    fn err_17_only_the_secret_opens_the_door() {
        assert!(ask(None, None));
        assert!(ask(Some("s3cret"), Some("Bearer s3cret")));
        for wrong in [None, Some("Bearer s3cres"), Some("s3cret"), Some("Bearer s3cret2")] {
            assert!(!ask(Some("s3cret"), wrong), "{wrong:?}");
        }
    }
}
