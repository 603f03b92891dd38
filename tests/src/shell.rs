//! Shell, as far as the documents' blocks need it to be read: which commands of ours it calls.

/// Calls of `mayfly` in a piece of shell, each with its words.
pub fn calls(shell: &str) -> Vec<Vec<String>> {
    let mut calls = Vec::new();
    for line in shell.replace("\\\n", " ").lines() {
        let mut call: Vec<String> = Vec::new();
        for word in words(line) {
            match word {
                Word::End => calls.extend(take_call(&mut call)),
                Word::Text(text) => call.push(text),
            }
        }
        calls.extend(take_call(&mut call));
    }
    calls
}

/// What was read so far, if it calls `mayfly`, perhaps with variables before it.
fn take_call(call: &mut Vec<String>) -> Option<Vec<String>> {
    let call = std::mem::take(call);
    let position = call.iter().position(|word| word == "mayfly")?;
    let is_first = call[..position].iter().all(|word| word.contains('=') || is_keyword(word));
    is_first.then(|| call[position..].to_vec())
}

fn is_keyword(word: &str) -> bool {
    ["until", "while", "if", "do", "then", "!"].contains(&word)
}

enum Word {
    Text(String),
    /// A command ends here.
    End,
}

/// As a shell splits a line, as far as the documents' blocks need it.
fn words(line: &str) -> Vec<Word> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (Some('"') | None, '\\') => word.get_or_insert_default().extend(letters.next()),
            (Some(_), _) => word.get_or_insert_default().push(letter),
            (None, '#') if word.is_none() => break,
            (None, ' ') => words.extend(word.take().map(Word::Text)),
            (None, ';' | '&' | '|' | '<' | '>') => {
                words.extend(word.take().map(Word::Text));
                words.push(Word::End);
            }
            (None, _) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word.map(Word::Text));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_read_as_a_shell_reads_them() {
        let shell = "A=1 mayfly up --nodes 3 &\nmayfly send q 'a b' --ttl \\\n  5s && mayfly peek q # no\n\
                     until mayfly cluster status | grep -q x; do sleep 1; done\necho mayfly\n";
        let wanted = [
            "mayfly|up|--nodes|3",
            "mayfly|send|q|a b|--ttl|5s",
            "mayfly|peek|q",
            "mayfly|cluster|status",
        ];
        assert_eq!(calls(shell).iter().map(|call| call.join("|")).collect::<Vec<_>>(), wanted);
    }
}
