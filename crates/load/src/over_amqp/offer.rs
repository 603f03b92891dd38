//! What a broker offers, asked of it before a run.

use amqp_protocol::codec::Value;

use super::{AmqpTarget, step};
use crate::Error;
use crate::need::{Feature, Need};

/// Products that are Service Bus, as far as clients can tell.
const SERVICE_BUS: [&str; 3] = ["mayfly", "service bus", "servicebus"];

impl AmqpTarget {
    /// Sees that somebody is there, lets this client in, and offers what a file needs.
    ///
    /// # Errors
    /// [`Error::Wrong`], in one sentence.
    pub async fn offers(&self, needs: &[Need]) -> Result<(), Error> {
        let address = self.address(0);
        let renewal = needs.iter().find(|need| need.feature == Feature::Renewal);
        if let Some(Need { place, .. }) = renewal {
            let told = "renew is not done over AMQP; leave it out, or use --protocol grpc";
            return Err(Error::Wrong(format!("{place}: {told}")));
        }
        let wrong = |told: String| Error::Wrong(format!("{address}: {told}"));
        let opened = self.connect_unnamed(0).await;
        let mut client = opened.map_err(|broken| wrong(broken.0))?;
        let product = client.server().properties.as_ref().and_then(|of| match of.get("product") {
            Some(Value::String(product)) => Some(product.to_string()),
            Some(Value::Symbol(product)) => Some(product.to_string()),
            _ => None,
        });
        // Service Bus itself need not say what it is; brokers of other kinds do.
        let other = product.filter(|product| {
            let product = product.to_lowercase();
            !SERVICE_BUS.iter().any(|known| product.contains(known))
        });
        if let Some(product) = other {
            let lacks = needs.iter().find(|need| need.feature.is_of_service_bus());
            if let Some(Need { feature, place }) = lacks {
                return Err(Error::Wrong(format!(
                    "{place}: {product} at {address} has no {feature} as Service Bus has them; leave it out, or \
                     run this on Mayfly or Service Bus"
                )));
            }
            let transactions = needs.iter().find(|need| need.feature == Feature::Transactions);
            if let Some(Need { place, .. }) = transactions
                && let Err(broken) = step::coordinator(&mut client).await
            {
                return Err(Error::Wrong(format!(
                    "{place}: {product} at {address} has no transactions: {broken}; leave it out"
                )));
            }
        }
        client.close().await;
        Ok(())
    }
}
