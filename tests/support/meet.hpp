// Shows a thread sanitizer the order that oneTBB keeps between a test and its tasks, which it does not see.
#pragma once

namespace heed::test {

// What a thread did before it met the others is visible to those that meet later.
void meet();

}  // namespace heed::test
