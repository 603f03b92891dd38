//! `mayfly cluster token`.

use std::time::Duration;

use anyhow::Context;
use auth::{JoinSecret, JoinToken};
use client::{Client, v1};
use serde_json::json;
use transport::Fingerprint;

use crate::connect::Connect;
use crate::input::{duration, instant};
use crate::terminal;

#[derive(Debug, clap::Args)]
pub struct TokenArgs {
    /// How long it is good, by the cluster's time
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = duration::parse)]
    expires: Duration,
    /// The only node it admits, by its number; otherwise any
    #[arg(long, value_name = "ID", value_parser = clap::value_parser!(u16).range(1..))]
    node: Option<u16>,
    /// List those there are: ids, ends and whom they admitted, and no secret
    #[arg(long, conflicts_with_all = ["node", "revoke"])]
    list: bool,
    /// Have one admit nobody any more, by its id, which follows mjt1_ in it
    #[arg(long, value_name = "ID", conflicts_with = "node", value_parser = id)]
    revoke: Option<u64>,
    /// As JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: Connect,
}

pub async fn run(args: TokenArgs) -> anyhow::Result<()> {
    let TokenArgs { expires, node, list, revoke, json, connect } = args;
    let client = connect.client()?;
    match revoke {
        Some(id) => {
            client.revoke_join_token(id).await?;
            terminal::line(format!("join token {} admits nobody", JoinToken::show_id(id)))
        }
        None if list => show_all(&client, json).await,
        None => make(&client, expires, node, json, &connect).await,
    }
}

/// Its secret is drawn here, and no node is told it before the one that joins says it.
async fn make(
    client: &Client,
    expires: Duration,
    node: Option<u16>,
    as_json: bool,
    connect: &Connect,
) -> anyhow::Result<()> {
    let (id, secret) = (rand::random::<u64>().max(1), JoinSecret(rand::random()));
    let request = v1::CreateJoinTokenRequest {
        id,
        secret_hash: secret.hash().to_vec().into(),
        lasts_ms: u64::try_from(expires.as_millis()).unwrap_or(u64::MAX),
        node: node.map_or(0, u64::from),
    };
    let v1::CreateJoinTokenResponse { expires_at_ms, authorities } =
        client.create_join_token(request).await?;
    let authorities = authorities.iter().map(|print| <[u8; 32]>::try_from(&print[..]));
    let authorities = authorities.collect::<Result<Vec<_>, _>>();
    let authorities = authorities.context("the node answered with a fingerprint that is none")?;
    let token = JoinToken { id, secret, expires_at_ms, node, authorities };
    if as_json {
        let prints = token.authorities.iter().map(|print| Fingerprint(*print).to_string());
        return terminal::json(&json!({
            "id": JoinToken::show_id(id),
            "token": token.to_string(),
            "expires_at": instant::show_ms(expires_at_ms),
            "node": node,
            "authorities": prints.collect::<Vec<_>>(),
        }));
    }
    terminal::line(&token)?;
    let whom = node.map_or_else(|| "one node".to_owned(), |node| format!("node {node}"));
    terminal::note(&format!(
        "it admits {whom} until {}; keep it in a file that only its owner may read, and start the node with: \
         mayfly serve --config FILE --join {} --token-file FILE",
        instant::show_ms(expires_at_ms),
        connect.connect.join(","),
    ));
    Ok(())
}

async fn show_all(client: &Client, as_json: bool) -> anyhow::Result<()> {
    let v1::ListJoinTokensResponse { tokens, now_ms } = client.list_join_tokens().await?;
    if as_json {
        let tokens = tokens.iter().map(|token| {
            json!({
                "id": JoinToken::show_id(token.id),
                "state": state(token, now_ms),
                "expires_at": instant::show_ms(token.expires_at_ms),
                "node": number(token.node),
                "used_by": number(token.used_by),
                "used_at": number(token.used_at_ms).map(instant::show_ms),
            })
        });
        return terminal::json(&tokens.collect::<Vec<_>>());
    }
    let rows = tokens.iter().map(|token| {
        vec![
            JoinToken::show_id(token.id),
            state(token, now_ms).to_owned(),
            instant::show_ms(token.expires_at_ms),
            number(token.node).map_or_else(|| "any".to_owned(), |node| node.to_string()),
            number(token.used_by).map_or_else(String::new, |node| node.to_string()),
        ]
    });
    let header = ["token", "state", "ends", "for node", "admitted"];
    terminal::line(terminal::table(&header, &[], rows.collect()))
}

fn state(token: &v1::JoinTokenStatus, now_ms: u64) -> &'static str {
    match token {
        token if token.used_by != 0 => "used",
        token if now_ms >= token.expires_at_ms => "expired",
        _ => "good",
    }
}

/// On the wire 0 is none.
fn number(number: u64) -> Option<u64> {
    (number != 0).then_some(number)
}

fn id(text: &str) -> Result<u64, String> {
    JoinToken::read_id(text).ok_or_else(|| {
        "it is no id of a join token, which has 16 hexadecimal digits; see mayfly cluster token --list"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_until_it_ends_or_is_used() {
        for (expires_at_ms, used_by, shown) in
            [(11, 0, "good"), (10, 0, "expired"), (11, 4, "used"), (9, 4, "used")]
        {
            let token = v1::JoinTokenStatus { expires_at_ms, used_by, ..Default::default() };
            assert_eq!(state(&token, 10), shown);
        }
    }
}
