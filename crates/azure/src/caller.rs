//! Who asks, and what he may: Manage on a namespace or on an entity, or Operate on everything.

use auth::{Denied, Principal, Right, resource_path};
use axum::http::StatusCode;
use domain::Namespace;

use crate::authority::{Proven, now_s};
use crate::failure::Failure;

#[derive(Clone)]
pub(crate) struct Caller {
    proven: Proven,
    now_s: u64,
}

/// What a request takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// A token, whatever it is good for.
    Token,
    /// Manage, on a namespace or an entity of it.
    Manage { namespace: Namespace, entity: String },
    /// Operate, on everything.
    Operate,
}

impl Caller {
    pub fn new(proven: Proven) -> Caller {
        Caller { proven, now_s: now_s() }
    }

    pub fn principal(&self) -> &Principal {
        &self.proven.grant.principal
    }

    /// Where his key is.
    pub fn namespace(&self) -> &Namespace {
        &self.proven.namespace
    }

    /// What his key is called.
    pub fn name(&self) -> &str {
        &self.proven.name
    }

    pub fn is_operator(&self) -> bool {
        self.proven.grant.allows("", Right::Operate, self.now_s)
    }

    pub fn may(&self, taken: &Taken) -> bool {
        match taken {
            Taken::Token => true,
            Taken::Operate => self.is_operator(),
            Taken::Manage { namespace, entity } => {
                let path = resource_path(entity);
                let is_own = *self.namespace() == *namespace
                    && self.proven.grant.allows(&path, Right::Manage, self.now_s);
                is_own || self.is_operator()
            }
        }
    }

    /// Whether he may see a namespace in lists.
    pub fn sees(&self, namespace: &Namespace) -> bool {
        self.may(&Taken::Manage { namespace: namespace.clone(), entity: String::new() })
    }

    /// What he is told who may not, and the audit. `action`: in Azure's words, on that scope.
    pub fn refused(&self, taken: &Taken, action: &str, scope: &str) -> (Failure, Denied) {
        let (right, path) = match taken {
            Taken::Manage { entity, .. } => (Right::Manage, entity.clone()),
            Taken::Token | Taken::Operate => (Right::Operate, String::new()),
        };
        let denied = Denied::Right { principal: self.principal().clone(), right, path };
        let message = format!(
            "The client '{}' does not have authorization to perform action '{action}' over scope '{scope}' or the \
             scope is invalid: {denied}.",
            self.name()
        );
        (Failure::new(StatusCode::FORBIDDEN, "AuthorizationFailed", message), denied)
    }
}
