//! `mayfly completions`.

use clap_complete::Shell;

const EXAMPLES: &str = "\
Examples:
  mayfly completions bash > /etc/bash_completion.d/mayfly
  mayfly completions zsh > ~/.zfunc/_mayfly
  mayfly completions fish > ~/.config/fish/completions/mayfly.fish";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

pub fn run(args: &CompletionsArgs, mut command: clap::Command) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "mayfly", &mut script);
    crate::terminal::line(String::from_utf8(script)?.trim_end())
}
