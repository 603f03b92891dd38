//! Takes out of a text what looks like a secret. Nothing of a node's should have one: this is the second lock, for what a
//! client put into a name or an operator into a note.

/// What a secret follows, in lower case.
const MARKS: [&str; 10] = [
    "sharedaccesskey=",
    "sharedaccesssignature ",
    "sharedsecretvalue=",
    "accountkey=",
    "sig=",
    "password=",
    "passwd=",
    "secret=",
    "authorization: ",
    "bearer ",
];
/// It ends before the first of these.
const ENDS: [char; 9] = [';', ',', '"', '\'', '&', ' ', '\n', '\r', '\t'];
const HIDDEN: &str = "(hidden)";

pub fn scrub(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let (mut shown, mut at) = (String::with_capacity(text.len()), 0);
    while let Some((found, mark)) = next_mark(&lower, at) {
        let begin = found + mark.len();
        let value = &text[begin..];
        let end = begin + value.find(ENDS).unwrap_or(value.len());
        shown.push_str(&text[at..begin]);
        if end > begin {
            shown.push_str(HIDDEN);
        }
        at = end;
    }
    shown.push_str(&text[at..]);
    shown
}

/// Of those from there on, the first.
fn next_mark(lower: &str, at: usize) -> Option<(usize, &'static str)> {
    let found = MARKS.iter().filter_map(|mark| Some((at + lower[at..].find(mark)?, *mark)));
    found.min_by_key(|(found, _)| *found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_the_name_of_a_secret_is_hidden() {
        for (text, shown) in [
            ("nothing of the kind", "nothing of the kind"),
            (
                "Endpoint=sb://h/;SharedAccessKeyName=k;SharedAccessKey=aGVsbG8=;EntityPath=q",
                "Endpoint=sb://h/;SharedAccessKeyName=k;SharedAccessKey=(hidden);EntityPath=q",
            ),
            ("sr=h&SIG=abc%3D&se=1", "sr=h&SIG=(hidden)&se=1"),
            (
                "{\"authorization: x\": \"Bearer y\"}",
                "{\"authorization: (hidden)\": \"Bearer (hidden)\"}",
            ),
            ("password=", "password="),
            ("é password=é\nnext", "é password=(hidden)\nnext"),
            ("secret=a secret=b", "secret=(hidden) secret=(hidden)"),
        ] {
            assert_eq!(scrub(text), shown, "{text}");
        }
    }
}
