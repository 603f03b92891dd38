//! Namespaces, for operators.

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
        self.create_namespace_of(name, v1::Profile::SelfHosted, rules).await
    }

    /// The same, which behaves as a tier of Service Bus.
    ///
    /// # Errors
    /// As [`Client::create_namespace`], and where the cluster has nodes that know no profiles.
    pub async fn create_namespace_of(
        &self,
        name: &str,
        profile: v1::Profile,
        rules: Option<v1::AuthorizationRules>,
    ) -> Result<v1::Namespace, Error> {
        let request = v1::CreateNamespaceRequest {
            profile: profile.into(),
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

    /// That of a name; `default` is one.
    ///
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
        let request = v1::UpdateNamespaceRequest {
            name: name.to_owned(),
            authorization_rules: Some(rules),
            profile: v1::Profile::Unspecified.into(),
        };
        self.change_namespace(request).await
    }

    /// Has a namespace behave as another tier; `default` may as well.
    ///
    /// # Errors
    /// Refused where there is none of that name, and with the names of what is in it and does not fit.
    pub async fn set_namespace_profile(
        &self,
        name: &str,
        profile: v1::Profile,
    ) -> Result<v1::Namespace, Error> {
        let request = v1::UpdateNamespaceRequest {
            name: name.to_owned(),
            authorization_rules: None,
            profile: profile.into(),
        };
        self.change_namespace(request).await
    }

    /// Either of both: what is left out stays.
    ///
    /// # Errors
    /// As of each, and where both are given.
    pub async fn change_namespace(
        &self,
        request: v1::UpdateNamespaceRequest,
    ) -> Result<v1::Namespace, Error> {
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
