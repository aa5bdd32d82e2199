// SPDX-License-Identifier: BSD-3-Clause
//
// Ranks that move while messages, receives, collectives and exceptions are under way.  moving ROUNDS SEED
//
// In each round every rank sends some messages to every rank, of random sizes, kinds and tags, posts some of the receives, and then moves to a random
// process.  What it has not received before it receives after that.  Messages carry the number that they have between their two ranks and their tag:
// none may be lost or overtaken.
#include <mpi.h>
#include <wherry_mpix.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

int rank, size, processes, global = 7;
thread_local std::string name;
std::map<std::string, int> counts;

void check(bool good, const char *what) {
    if (good)
        return;
    std::fprintf(stderr, "rank %d: %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

int where() {
    int process;
    MPIX_Process(&process, nullptr);
    return process;
}

void move_to(int process) {
    check(MPIX_Migrate(process) == MPI_SUCCESS && (process == MPIX_STAY || where() == process), "it moves to where it wants");
}

// What one rank sends to another in a round: both know.
struct Letter {
    int tag, bytes, how;
    bool early;  // its receive is posted before the move
};

std::vector<Letter> letters(unsigned seed, int round, int from, int to) {
    static const int sizes[] = {0, 8, 900, 14000, 70000, 300000};
    std::seed_seq all{seed, unsigned(round), unsigned(from), unsigned(to)};
    std::mt19937 next(all);
    std::vector<Letter> made(next() % 4);
    for (Letter &l : made)
        l = {int(next() % 2), sizes[next() % 6], int(next() % 4), next() % 2 == 0};
    // A few are on their way for long.
    if (!made.empty() && size <= 20 && (from + 2 * to + round) % 11 == 0)
        made[0].bytes = 3 << 20;
    return made;
}

// Every other block of 16 bytes, twice as long in memory.
MPI_Datatype spread(int bytes) {
    MPI_Datatype type;
    MPI_Type_vector(bytes / 16, 16, 32, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    return type;
}

struct Mail {
    std::vector<unsigned char> bytes;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Datatype type = MPI_BYTE;
    int count = 0, step = 1, filled = 0;
};

// With a layout where it is long enough.
Mail mail(int bytes, bool layout) {
    Mail m;
    m.step = layout && bytes >= 16 && bytes % 16 == 0 ? 2 : 1;
    m.bytes.assign(size_t(bytes) * size_t(m.step) + 1, 0);
    m.type = m.step == 2 ? spread(bytes) : MPI_BYTE;
    m.count = m.step == 2 ? 1 : bytes;
    m.filled = bytes;
    return m;
}

size_t place(const Mail &m, int i) {
    return m.step == 1 ? size_t(i) : size_t(i) / 16 * 32 + size_t(i) % 16;
}

unsigned char text(int from, int tag, int number, int i) {
    return static_cast<unsigned char>(from * 31 + tag * 7 + number * 13 + i);
}

void drop(Mail &m) {
    if (m.type != MPI_BYTE)
        MPI_Type_free(&m.type);
}

using Numbers = std::map<std::pair<int, int>, int>;  // by peer and tag

void exchange(unsigned seed, int round, MPI_Comm comm, Numbers &sent, Numbers &received) {
    std::vector<Mail> out, in;
    std::vector<std::pair<int, Letter>> from, late;
    for (int to = 0; to < size; to++)
        for (const Letter &l : letters(seed, round, rank, to)) {
            Mail m = mail(l.bytes, l.how & 1);
            int number = sent[{to, l.tag}]++;
            for (int i = 0; i < l.bytes; i++)
                m.bytes[place(m, i)] = text(rank, l.tag, number, i);
            out.push_back(std::move(m));
            Mail &kept = out.back();
            (l.how & 2 ? MPI_Issend : MPI_Isend)(kept.bytes.data(), kept.count, kept.type, to, l.tag, comm, &kept.request);
        }
    // Of a sender and a tag, receives that are posted before the move come before those after it.
    std::map<std::pair<int, int>, bool> ended;
    for (int peer = 0; peer < size; peer++)
        for (const Letter &l : letters(seed, round, peer, rank)) {
            bool &over = ended[{peer, l.tag}];
            over = over || !l.early;
            (over ? late : from).push_back({peer, l});
        }
    auto post = [&](const std::pair<int, Letter> &one) {
        in.push_back(mail(one.second.bytes, one.second.how & 2));
        Mail &m = in.back();
        MPI_Irecv(m.bytes.data(), m.count, m.type, one.first, one.second.tag, comm, &m.request);
    };
    for (auto &one : from)
        post(one);
    move_to(int(std::mt19937(seed + unsigned(round * size + rank))() % unsigned(processes + 1)) - 1);
    for (auto &one : late)
        post(one);
    from.insert(from.end(), late.begin(), late.end());
    for (size_t k = 0; k < in.size(); k++) {
        MPI_Status status;
        int got;
        Mail &m = in[k];
        MPI_Wait(&m.request, &status);
        MPI_Get_elements(&status, MPI_BYTE, &got);
        check(got == m.filled, "a message has its length");
        int number = received[{from[k].first, from[k].second.tag}]++;
        for (int i = 0; i < m.filled; i++)
            check(m.bytes[place(m, i)] == text(from[k].first, from[k].second.tag, number, i), "a message is the next one, and whole");
        drop(m);
    }
    for (Mail &m : out) {
        MPI_Wait(&m.request, MPI_STATUS_IGNORE);
        drop(m);
    }
}

// A message is taken out of the queue before the move, and received after it; and one with wildcards.
void probed(int round) {
    int next = (rank + 1) % size, last = (rank + size - 1) % size;
    std::vector<int> out(size_t(10 + round % 2 * 50000), rank), in(out.size());
    MPI_Message message;
    MPI_Request request, any, sync;
    MPI_Status status;
    int small = rank, got = -1, synced = -1, done;
    MPI_Issend(&small, 1, MPI_INT, next, 12, MPI_COMM_WORLD, &sync);
    MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 11, MPI_COMM_WORLD, &any);
    MPI_Isend(out.data(), int(out.size()), MPI_INT, next, 10, MPI_COMM_WORLD, &request);
    MPI_Mprobe(last, 10, MPI_COMM_WORLD, &message, &status);
    move_to((where() + 1) % processes);
    MPI_Test(&sync, &done, MPI_STATUS_IGNORE);
    check(!done, "a synchronous send waits for its receive");
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Recv(&synced, 1, MPI_INT, last, 12, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&sync, MPI_STATUS_IGNORE);
    MPI_Send(&small, 1, MPI_INT, next, 11, MPI_COMM_WORLD);
    MPI_Mrecv(in.data(), int(in.size()), MPI_INT, &message, &status);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Wait(&any, &status);
    check(in.front() == last && in.back() == last && got == last && synced == last && status.MPI_SOURCE == last, "a probed message comes along");
}

// Collectives that have begun, a persistent send, an attribute, a function of the program as operation.
void add(void *in, void *inout, int *count, MPI_Datatype *) {
    for (int i = 0; i < *count; i++)
        static_cast<int *>(inout)[i] += static_cast<int *>(in)[i];
}

int copy_text(MPI_Comm, int, void *, void *value, void *copy, int *flag) {
    *static_cast<void **>(copy) = strdup(static_cast<char *>(value));
    *flag = 1;
    return MPI_SUCCESS;
}

int free_text(MPI_Comm, int, void *value, void *) {
    std::free(value);
    return MPI_SUCCESS;
}

void objects() {
    MPI_Comm dup, half;
    MPI_Op op;
    MPI_Request requests[3], many[8];
    const int each = size > 20 ? 3000 : 150000;  // over sockets their steps take a while
    std::vector<int> numbers(8 * size_t(each), 1), sums(numbers.size());
    int key, flag, sum = 0, all = rank, next = (rank + 1) % size, in = -1;
    char *value;
    MPI_Comm_create_keyval(copy_text, free_text, &key, nullptr);
    MPI_Comm_set_attr(MPI_COMM_WORLD, key, strdup("an attribute"));
    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    MPI_Comm_split(dup, rank % 2, -rank, &half);
    MPI_Op_create(add, 0, &op);
    MPI_Send_init(&rank, 1, MPI_INT, next, 20, dup, &requests[0]);
    MPI_Recv_init(&in, 1, MPI_INT, MPI_ANY_SOURCE, 20, dup, &requests[1]);
    MPI_Start(&requests[1]);
    MPI_Iallreduce(&all, &sum, 1, MPI_INT, op, half, &requests[2]);
    for (int i = 0; i < 8; i++)
        MPI_Iallreduce(&numbers[size_t(i) * size_t(each)], &sums[size_t(i) * size_t(each)], each, MPI_INT, MPI_SUM, dup, &many[i]);
    move_to((where() + 1) % processes);
    MPI_Start(&requests[0]);
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    MPI_Waitall(8, many, MPI_STATUSES_IGNORE);
    for (int n : sums)
        check(n == size, "many collectives go on");
    int expected = 0;
    for (int i = rank % 2; i < size; i += 2)
        expected += i;
    check(sum == expected, "a collective goes on");
    check(in == (rank + size - 1) % size, "persistent requests go on");
    MPI_Comm_get_attr(dup, key, &value, &flag);
    check(flag && !std::strcmp(value, "an attribute"), "attributes come along");
    move_to(rank % processes);
    MPI_Allreduce(&all, &sum, 1, MPI_INT, op, half);
    check(sum == expected, "a communicator is the same");
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    MPI_Op_free(&op);
    MPI_Comm_delete_attr(MPI_COMM_WORLD, key);
    MPI_Comm_free(&half);
    MPI_Comm_free(&dup);
    MPI_Comm_free_keyval(&key);
}

// deep moves from within a catch, below destructors.
struct Counted {
    std::string what;
    explicit Counted(const char *text) : what(text) { counts[what]++; }
    ~Counted() { counts[what]--; }
};

void deep(int levels) {
    Counted here("level");
    char frame[512];
    std::memset(frame, levels, sizeof(frame));
    if (levels) {
        deep(levels - 1);
    } else {
        try {
            throw std::runtime_error("of rank " + std::to_string(rank));
        } catch (const std::exception &caught) {
            move_to((where() + 1) % processes);
            check(caught.what() == "of rank " + std::to_string(rank), "an exception comes along");
            throw;
        }
    }
    check(frame[sizeof(frame) - 1] == levels, "frames come along");
}

void exceptions() {
    try {
        deep(20);
        check(false, "it does not return");
    } catch (const std::exception &caught) {
        check(caught.what() == "of rank " + std::to_string(rank) && counts["level"] == 0, "it is thrown on in the new process");
    }
}

void own() {
    check(global == 7 + rank && name == "rank " + std::to_string(rank) && counts["all"] == rank, "what is its own comes along");
}

// A rank with much memory moves, which takes a while; those that stay in a third process send to it as soon as they go on.
void heavy() {
    std::vector<char> much;
    if (rank == 0)
        much.assign(64 << 20, 3);
    move_to(0);
    move_to(rank % processes);
    move_to(rank == 0 && processes > 1 ? 1 : MPIX_STAY);
    std::vector<int> from(size_t(size), -1);
    MPI_Gather(&rank, 1, MPI_INT, from.data(), 1, MPI_INT, 0, MPI_COMM_WORLD);
    for (int i = 0; rank == 0 && i < size; i++)
        check(from[size_t(i)] == i, "what is sent at once arrives");
    check(rank || (much.front() == 3 && much.back() == 3), "much memory comes along");
}

// Why a rank stays.
void refused() {
    FILE *file = std::fopen("/dev/null", "w");
    int before = where(), other = (before + 1) % processes;
    check(MPIX_Migrate(other) == (other == before ? MPI_SUCCESS : MPI_ERR_OTHER) && where() == before, "it stays with an open file");
    std::fclose(file);
    MPI_Win win;
    int memory = 0;
    MPI_Win_create(&memory, sizeof(memory), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    check(MPIX_Migrate(other) == (other == before ? MPI_SUCCESS : MPI_ERR_OTHER) && where() == before, "it stays with a window");
    MPI_Win_free(&win);
    check(MPIX_Migrate(processes) == MPI_ERR_ARG && where() == before, "there is no such process");
    move_to(other);
}

int left;  // thread-local variables that have been destroyed

struct Local {
    int alive = 1;
    ~Local() { left++; }
};
thread_local Local local_object;

struct Last {
    ~Last() {
        if (left == 1)
            std::printf("rank %d is good\n", rank);
        std::fflush(stdout);
    }
};
Last last;

}  // namespace

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPIX_Process(nullptr, &processes);
    if (rank == 0)
        std::puts("begins");  // the process keeps its buffer when the rank moves
    int rounds = argc > 1 ? std::atoi(argv[1]) : 5;
    unsigned seed = argc > 2 ? unsigned(std::atoi(argv[2])) : 1;
    local_object.alive++;
    global += rank;
    name = "rank " + std::to_string(rank);
    counts["all"] = rank;
    Numbers sent, received;
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int round = 0; round < rounds; round++) {
        exchange(seed, round, comm, sent, received);
        probed(round);
        own();
    }
    objects();
    heavy();
    exceptions();
    own();
    if (argc > 3)
        refused();
    MPI_Comm_free(&comm);
    MPI_Finalize();
    return 0;
}
