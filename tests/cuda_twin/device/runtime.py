"""The text of a launch on the host: blocks one after the other, and their threads.

Threads of kernels in which no thread waits are calls, one after the other. In others each thread is
a fiber, a context of the C library. All fibers of a block take a step in each round. An exchange
ends two of these steps: in the first a thread leaves its value, in the second it reads that of the
other thread, and it goes on when all have read. A thread takes no more steps at a barrier, until
all others of its block have come to one or have ended. Bytes of shared arrays are those of a NaN
when a block begins.
"""

CONTEXT_BYTES = 8192
"""Bytes allocated for a context, which is smaller on every processor."""

STACK_BYTES = 64 << 10

RUN = "twin_run"
"""twin_run(kernel, table, blocks, threads, block_order, thread_order, memory) launches a kernel by
its number, with a table of its buffers' addresses. `memory` is for contexts of all threads and one
more, and then for their stacks; 0 where no thread waits. The result has the bits of MISSES."""

MISSES = {1: "an exchange of its warp", 2: "a barrier of its block"}
"""Meetings that a thread missed and another one came to, by bits of the result of a launch."""

RUNTIME = f"""
@twin_ctaid.x = internal global i32 0
@twin_tid.x = internal global i32 0
@twin_kernel = internal global i64 0
@twin_table = internal global ptr null
@twin_memory = internal global ptr null
@twin_main = internal global ptr null
@twin_wrong = internal global i64 0
@twin_values = internal global [1024 x i32] zeroinitializer
@twin_counts = internal global [1024 x i32] zeroinitializer
@twin_ended = internal global [1024 x i8] zeroinitializer
@twin_waiting = internal global [1024 x i8] zeroinitializer

declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare i32 @getcontext(ptr)
declare void @makecontext(ptr, ptr, i32, ...)
declare i32 @swapcontext(ptr, ptr)

define internal void @twin_yield() noinline {{
  %thread = load i32, ptr @twin_tid.x
  %number = zext i32 %thread to i64
  %memory = load ptr, ptr @twin_memory
  %own = getelementptr [{CONTEXT_BYTES} x i8], ptr %memory, i64 %number
  %main = load ptr, ptr @twin_main
  %done = call i32 @swapcontext(ptr %own, ptr %main)
  ret void
}}

define internal i32 @twin_shuffle(i32 %mask, i32 %value, i32 %distance, i32 %clamp) noinline {{
entry:
  %thread = load i32, ptr @twin_tid.x
  %mine = getelementptr [1024 x i32], ptr @twin_values, i32 0, i32 %thread
  store i32 %value, ptr %mine
  %count_at = getelementptr [1024 x i32], ptr @twin_counts, i32 0, i32 %thread
  %before = load i32, ptr %count_at
  %count = add i32 %before, 1
  store i32 %count, ptr %count_at
  call void @twin_yield()
  %other = xor i32 %thread, %distance
  %theirs = getelementptr [1024 x i32], ptr @twin_values, i32 0, i32 %other
  %found = load i32, ptr %theirs
  %their_count_at = getelementptr [1024 x i32], ptr @twin_counts, i32 0, i32 %other
  %their_count = load i32, ptr %their_count_at
  %is_there = icmp eq i32 %count, %their_count
  br i1 %is_there, label %read, label %wrong
wrong:
  call void @twin_missed(i64 1)
  br label %read
read:
  call void @twin_yield()
  ret i32 %found
}}

define internal void @twin_missed(i64 %what) {{
  %before = load i64, ptr @twin_wrong
  %all = or i64 %before, %what
  store i64 %all, ptr @twin_wrong
  ret void
}}

define internal void @twin_barrier(i32 %number) noinline {{
  %thread = load i32, ptr @twin_tid.x
  %at = getelementptr [1024 x i8], ptr @twin_waiting, i32 0, i32 %thread
  store i8 1, ptr %at
  call void @twin_yield()
  ret void
}}

; Lets all threads that wait go on; those that do not have ended, and missed the barrier.
define internal void @twin_release(i64 %threads) noinline {{
entry:
  br label %thread
thread:
  %t = phi i64 [0, %entry], [%next, %follow]
  %at = getelementptr [1024 x i8], ptr @twin_waiting, i64 0, i64 %t
  %waits = load i8, ptr %at
  store i8 0, ptr %at
  %is_there = icmp ne i8 %waits, 0
  br i1 %is_there, label %follow, label %missed
missed:
  call void @twin_missed(i64 2)
  br label %follow
follow:
  %next = add i64 %t, 1
  %has_more = icmp ult i64 %next, %threads
  br i1 %has_more, label %thread, label %end
end:
  ret void
}}

define internal void @twin_fiber() noinline {{
  call void @twin_launch()
  %thread = load i32, ptr @twin_tid.x
  %at = getelementptr [1024 x i8], ptr @twin_ended, i32 0, i32 %thread
  store i8 1, ptr %at
  ret void
}}

define internal void @twin_begin(i64 %thread, i64 %threads) noinline {{
  %memory = load ptr, ptr @twin_memory
  %context = getelementptr [{CONTEXT_BYTES} x i8], ptr %memory, i64 %thread
  %done = call i32 @getcontext(ptr %context)
  %contexts = add i64 %threads, 1
  %stacks = getelementptr [{CONTEXT_BYTES} x i8], ptr %memory, i64 %contexts
  %stack = getelementptr [{STACK_BYTES} x i8], ptr %stacks, i64 %thread
  %main = load ptr, ptr @twin_main
  ; The next context, and a stack with its size, come first in a context, behind its flags.
  %link_at = getelementptr i64, ptr %context, i64 1
  store ptr %main, ptr %link_at
  %stack_at = getelementptr i64, ptr %context, i64 2
  store ptr %stack, ptr %stack_at
  %size_at = getelementptr i64, ptr %context, i64 4
  store i64 {STACK_BYTES}, ptr %size_at
  call void (ptr, ptr, i32, ...) @makecontext(ptr %context, ptr @twin_fiber, i32 0)
  %ended_at = getelementptr [1024 x i8], ptr @twin_ended, i64 0, i64 %thread
  store i8 0, ptr %ended_at
  %count_at = getelementptr [1024 x i32], ptr @twin_counts, i64 0, i64 %thread
  store i32 0, ptr %count_at
  ret void
}}

; Lets a thread go on, or does all of it where there are no contexts. The result is 0 where it has
; ended, 1 where it waits at a barrier, else 2.
define internal i64 @twin_go_on(i32 %thread) noinline {{
entry:
  store i32 %thread, ptr @twin_tid.x
  %memory = load ptr, ptr @twin_memory
  %is_plain = icmp eq ptr %memory, null
  br i1 %is_plain, label %plain, label %look
plain:
  call void @twin_launch()
  ret i64 0
look:
  %at = getelementptr [1024 x i8], ptr @twin_ended, i32 0, i32 %thread
  %ended = load i8, ptr %at
  %is_over = icmp ne i8 %ended, 0
  br i1 %is_over, label %over, label %wait
over:
  ret i64 0
wait:
  %waiting_at = getelementptr [1024 x i8], ptr @twin_waiting, i32 0, i32 %thread
  %waits = load i8, ptr %waiting_at
  %is_waiting = icmp ne i8 %waits, 0
  br i1 %is_waiting, label %waiting, label %switch
waiting:
  ret i64 1
switch:
  %number = zext i32 %thread to i64
  %own = getelementptr [{CONTEXT_BYTES} x i8], ptr %memory, i64 %number
  %main = load ptr, ptr @twin_main
  %done = call i32 @swapcontext(ptr %main, ptr %own)
  %now = load i8, ptr %at
  %has_ended = icmp ne i8 %now, 0
  %waits_now = load i8, ptr %waiting_at
  %is_at_barrier = icmp ne i8 %waits_now, 0
  %alive = select i1 %is_at_barrier, i64 1, i64 2
  %result = select i1 %has_ended, i64 0, i64 %alive
  ret i64 %result
}}

define i64 @{RUN}(i64 %kernel, ptr %table, i64 %blocks, i64 %threads, ptr %block_order,
                  ptr %thread_order, ptr %memory) {{
entry:
  store i64 %kernel, ptr @twin_kernel
  store ptr %table, ptr @twin_table
  store ptr %memory, ptr @twin_memory
  store i64 0, ptr @twin_wrong
  %main = getelementptr [{CONTEXT_BYTES} x i8], ptr %memory, i64 %threads
  store ptr %main, ptr @twin_main
  %is_plain = icmp eq ptr %memory, null
  br label %block
block:
  %b = phi i64 [0, %entry], [%next_b, %done]
  %has_block = icmp ult i64 %b, %blocks
  br i1 %has_block, label %first, label %end
first:
  %at_b = getelementptr i32, ptr %block_order, i64 %b
  %number = load i32, ptr %at_b
  store i32 %number, ptr @twin_ctaid.x
  call void @twin_forget()
  br i1 %is_plain, label %round, label %begin
begin:
  %n = phi i64 [0, %first], [%next_n, %begin]
  call void @twin_begin(i64 %n, i64 %threads)
  %next_n = add i64 %n, 1
  %has_more = icmp ult i64 %next_n, %threads
  br i1 %has_more, label %begin, label %round
round:
  br label %thread
thread:
  %t = phi i64 [0, %round], [%next_t, %thread]
  %alive = phi i64 [0, %round], [%alive_then, %thread]
  %at_t = getelementptr i32, ptr %thread_order, i64 %t
  %which = load i32, ptr %at_t
  %goes_on = call i64 @twin_go_on(i32 %which)
  %alive_then = or i64 %alive, %goes_on
  %next_t = add i64 %t, 1
  %has_thread = icmp ult i64 %next_t, %threads
  br i1 %has_thread, label %thread, label %turned
turned:
  switch i64 %alive_then, label %round [i64 0, label %done i64 1, label %released]
released:
  call void @twin_release(i64 %threads)
  br label %round
done:
  %next_b = add i64 %b, 1
  br label %block
end:
  %result = load i64, ptr @twin_wrong
  ret i64 %result
}}
"""
"""Every module has this text. It calls `twin_launch`, which calls the kernel, and `twin_forget`,
which fills the shared arrays."""
