//! The examples run, and print what they say.

#[path = "../examples/agent_memory.rs"]
mod agent_memory;
#[path = "../examples/embedding.rs"]
mod embedding;

#[test]
fn embedding_shows_both_views_of_the_stock() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let out = embedding::run(dir.path()).expect("the example runs");
    assert_eq!(
        out,
        "morning: stock/apple = 12\n\
         morning: stock/pear = 7\n\
         morning: stock/plum = 30\n\
         now: stock/apple = 10\n\
         now: stock/plum = 30\n\
         sold/0001 has 8 bytes\n\
         after a reopen the last item is stock/plum\n"
    );
}

#[test]
fn agent_memory_recalls_the_newest_first() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let out = agent_memory::run(dir.path()).expect("the example runs");
    assert_eq!(
        out,
        "ada: ada saw thing 98\n\
         ada: ada saw thing 97\n\
         bob: bob did thing 99\n\
         bob: bob did thing 98\n\
         ada has 99 memories\n"
    );
}
