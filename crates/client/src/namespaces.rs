//! Namespaces beside the default one, for operators.

use std::sync::Arc;

use crate::calls::{Repeat, draw_number};
use crate::nodes::Node;
use crate::v1;
use crate::{Client, Error};

impl Client {
    /// Creates a namespace; without rules with one that has all rights, and keys that are drawn.
    ///
    /// # Errors
    /// Refused for a name that is none, or taken, and where the cluster has nodes that know no namespaces.
    pub async fn create_namespace(
        &self,
        name: &str,
        rules: Option<v1::AuthorizationRules>,
    ) -> Result<v1::Namespace, Error> {
        let request = v1::CreateNamespaceRequest {
            name: name.to_owned(),
            authorization_rules: rules,
            request: draw_number(),
        };
        let attempt = |node: Arc<Node>, _| {
            let request = request.clone();
            async move { node.namespaces().create_namespace(node.request(request)).await }
        };
        self.shared.call(Repeat::Always, self.patience(), attempt).await
    }

    /// # Errors
    /// Refused where there is none of that name.
    pub async fn namespace(&self, name: &str) -> Result<v1::Namespace, Error> {
        let request = v1::GetNamespaceRequest { name: name.to_owned() };
        let attempt = |node: Arc<Node>, _| {
            let request = request.clone();
            async move { node.namespaces().get_namespace(node.request(request)).await }
        };
        self.shared.call(Repeat::Always, self.patience(), attempt).await
    }

    /// All beside the default one, in the order of their names.
    pub async fn namespaces(&self) -> Result<Vec<v1::Namespace>, Error> {
        let attempt = |node: Arc<Node>, _| async move {
            node.namespaces().list_namespaces(node.request(v1::ListNamespacesRequest {})).await
        };
        Ok(self.shared.call(Repeat::Always, self.patience(), attempt).await?.namespaces)
    }

    /// Puts these rules in the place of a namespace's rules.
    ///
    /// # Errors
    /// Refused where there is none of that name.
    pub async fn update_namespace(
        &self,
        name: &str,
        rules: v1::AuthorizationRules,
    ) -> Result<v1::Namespace, Error> {
        let (name, authorization_rules) = (name.to_owned(), Some(rules));
        let request = v1::UpdateNamespaceRequest { name, authorization_rules };
        let attempt = |node: Arc<Node>, _| {
            let request = request.clone();
            async move { node.namespaces().update_namespace(node.request(request)).await }
        };
        self.shared.call(Repeat::IfNotDone, self.patience(), attempt).await
    }

    /// Deletes a namespace, with `force` and all that is in it. False: that takes longer, and goes on.
    ///
    /// # Errors
    /// Refused where there is none of that name, and without `force` where it has entities.
    pub async fn delete_namespace(&self, name: &str, force: bool) -> Result<bool, Error> {
        let request = v1::DeleteNamespaceRequest { name: name.to_owned(), force };
        let attempt = |node: Arc<Node>, _| {
            let request = request.clone();
            async move { node.namespaces().delete_namespace(node.request(request)).await }
        };
        Ok(self.shared.call(Repeat::IfNotDone, self.patience(), attempt).await?.gone)
    }
}
