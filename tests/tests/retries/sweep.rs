//! Every act, with the wire harmed after so many bytes.

use anyhow::Context;
use mayfly_tests::{Cluster, Harm, Plan, Proxy, Settings, Toward};
use tokio::task::JoinSet;

use crate::acts::{Act, Stage};
use crate::{ONE_AT_A_TIME, stride, wary_client};

/// Of so many kinds of harm, most come at once; the quiet one has to be found out.
fn harm(number: usize) -> Harm {
    match number % 9 {
        4 => Harm::Swallow,
        odd if odd % 2 == 1 => Harm::Reset,
        _ => Harm::Cut,
    }
}

/// One act over and over, the harm each time some bytes later, first on the way there, then on the
/// way back.
async fn sweep(mut stage: Stage, node: String, offset: usize) -> anyhow::Result<u64> {
    let proxy = Proxy::to(&node).await?;
    stage.play(&wary_client([proxy.address()])?).await?;
    let whole = [Toward::Node, Toward::Client].map(|toward| (toward, proxy.passed(toward)));
    let mut number = offset;
    for ((toward, bytes), step) in whole.into_iter().zip([stride(97)?, stride(31)?]) {
        for bytes in (0..=bytes).step_by(step) {
            let bytes = bytes + (offset % step) as u64;
            let plan = Plan { toward, bytes, harm: harm(number) };
            proxy.plan(Some(plan));
            let played = stage.play(&wary_client([proxy.address()])?).await;
            played.with_context(|| format!("{plan:?}"))?;
            number += 1;
        }
    }
    stage.audit().await
}

#[tokio::test(flavor = "multi_thread")]
async fn send_8_a_connection_that_breaks_anywhere_leaves_every_act_done_once() -> anyhow::Result<()>
{
    let _guard = ONE_AT_A_TIME.lock().await;
    let cluster = Cluster::start(Settings { data_groups: 1, ..Settings::default() }).await?;
    let calm = cluster.client()?;
    let mut sweeps = JoinSet::new();
    for (index, act) in Act::ALL.into_iter().enumerate() {
        let stage = Stage::set(act, "swept", calm.clone()).await?;
        let node = cluster.addresses(1 + index as u64 % 3)[0].to_owned();
        sweeps.spawn(sweep(stage, node, index));
    }
    let mut rounds = 0;
    while let Some(swept) = sweeps.join_next().await {
        rounds += swept??;
    }
    println!("{rounds} connections harmed");
    Ok(())
}
