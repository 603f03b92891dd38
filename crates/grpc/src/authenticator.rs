//! Authentication: a key that may do everything, as a bearer token.

use auth::Access;
use tonic::service::Interceptor;
use tonic::{Request, Status};

use crate::connection_limit::ConnectionLimit;

/// Lets requests pass that came on a connection with a slot and carry `authorization: Bearer <key>`;
/// where no proof is asked for, all that have a slot.
#[derive(Clone)]
pub(crate) struct Authenticator {
    access: Access,
}

impl Authenticator {
    pub fn new(access: Access) -> Authenticator {
        Authenticator { access }
    }
}

impl Interceptor for Authenticator {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        let request = ConnectionLimit.call(request)?;
        if self.access.is_anyone() {
            return Ok(request);
        }
        let given = request.metadata().get("authorization").map(|given| given.to_str());
        match given {
            Some(Ok(given))
                if given.strip_prefix("Bearer ").is_some_and(|key| self.access.is_master(key)) =>
            {
                Ok(request)
            }
            Some(_) => {
                Err(Status::unauthenticated("the bearer token is not this cluster's secret"))
            }
            None => Err(Status::unauthenticated("send the secret as 'authorization: Bearer …'")),
        }
    }
}

#[cfg(test)]
mod tests {
    use auth::{Key, Right, Rights};

    use super::*;

    fn ask(access: Access, given: Option<&str>) -> bool {
        let mut request = Request::new(());
        if let Some(given) = given {
            let value = given.parse().expect("a header value");
            request.metadata_mut().insert("authorization", value);
        }
        Authenticator::new(access).call(request).is_ok()
    }

    /// The native API knows no rights: what opens it opens all of it.
    #[test]
    fn err_17_only_a_key_to_everything_opens_the_door() {
        let sender = Key {
            name: "Sender".to_owned(),
            rights: Rights::default().with(Right::Send),
            ..Key::root("s3nder")
        };
        let local = Key { scope: "orders".to_owned(), ..Key::root("l0cal") };
        let access = Access::keys([Key::root("s3cret"), sender, local]);
        assert!(ask(Access::Anyone, None));
        assert!(ask(access.clone(), Some("Bearer s3cret")));
        let wrong = ["Bearer s3cres", "s3cret", "Bearer s3cret2", "Bearer ", "Bearer s3nder"];
        for wrong in wrong.map(Some).into_iter().chain([None, Some("Bearer l0cal")]) {
            assert!(!ask(access.clone(), wrong), "{wrong:?}");
        }
    }
}
