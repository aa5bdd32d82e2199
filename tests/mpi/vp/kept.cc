// SPDX-License-Identifier: BSD-3-Clause
//
// What the C and C++ libraries keep for the process is not in the memory of ranks that move.  kept [WHY]: with WHY, each rank has something that keeps it; kept
// killed PROCESS; kept often, kept waits, kept load.
#include <execinfo.h>
#include <grp.h>
#include <iconv.h>
#include <mpi.h>
#include <netdb.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
#include <wchar.h>
#include <wherry_mpix.h>

#include <cstdio>
#include <cstring>
#include <ctime>
#include <future>
#include <iostream>
#include <locale>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace {

int rank, processes, victim;
std::vector<std::string> texts;

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

// Ranks have other memory behind them when they have moved, and what they had there is gone.
void move() {
    int next = (where() + 1) % processes;
    check(MPIX_Migrate(next) == MPI_SUCCESS && where() == next, "it moves");
}

std::string clock_text() {
    std::time_t at = 1700000000;
    char text[100];
    std::strftime(text, sizeof(text), "%c %Z", std::localtime(&at));
    return text;
}

void c_library() {
    std::time_t now = 0;
    check(std::gmtime(&now) != nullptr, "a time");  // the zone is read here
    std::string before = clock_text();
    static char buffer[4000];
    std::setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
    std::setvbuf(stderr, nullptr, _IOLBF, 0);
    char *text;
    size_t size;
    for (int i = 0; i < 4; i++) {
        FILE *file = open_memstream(&text, &size);
        std::fprintf(file, "%d", rank);
        std::fclose(file);
        check(std::to_string(rank) == text, "a stream in memory");
        std::free(text);
        void *frames[8];
        check(backtrace(frames, 8) > 0, "where it is");
        iconv_t conversion = iconv_open("UTF-16", "ISO-8859-1");
        check(conversion != iconv_t(-1), "a conversion");
        iconv_close(conversion);
        putenv(strdup(("KEPT_" + std::to_string(rank * 10 + i) + "=yes").c_str()));
        check(getpwuid(0) && getgrgid(0) && gethostbyname("127.0.0.1"), "what the system knows by name");
        move();
        check(clock_text() == before, "the time zone");
        check(std::getenv("PATH") != nullptr, "the environment");
    }
    check(!aligned_alloc(48, 100), "an alignment that is none");
}

void cxx_library() {
    std::ios_base::sync_with_stdio(false);
    for (int i = 0; i < 4; i++) {
        std::cout << "line " << i << " of " << rank << std::string(200, '.') << "\n";
        std::puts("behind it");
        check(std::async(std::launch::async, [] { return std::string(200, 'a'); }).get().size() == 200, "a thread for one value");
        move();
    }
    std::cout.flush();
}

// Threads that are gone leave what they have allocated.
void threads() {
    std::mutex lock;
    void *(*volatile take)(size_t) = std::malloc;  // no compiler leaves it out
    for (int round = 0; round < 4; round++) {
        std::vector<std::thread> all;
        texts.clear();
        for (int i = 0; i < 4; i++)
            all.emplace_back([&, i] {
                for (int k = 0; k < 200000; k++) {
                    int *block = static_cast<int *>(take(sizeof(int)));
                    *block = i;
                    check(*const_cast<volatile int *>(block) == i, "a block is one thread's");
                    std::free(block);
                }
                for (int k = 0; k < 300; k++) {
                    std::string text(size_t(100 + k), 't');
                    std::lock_guard<std::mutex> held(lock);
                    texts.push_back(text);
                }
            });
        for (int k = 0; k < 3000; k++)
            std::free(take(size_t(1 + k % 100)));
        for (std::thread &thread : all)
            thread.join();
        move();
        check(texts.size() == 1200, "all texts are there");
        for (const std::string &text : texts)
            check(text.front() == 't' && text.back() == 't', "texts of threads come along");
    }
}

void mpi_memory() {
    char *memory;
    MPI_Alloc_mem(1000, MPI_INFO_NULL, &memory);
    std::memset(memory, 1 + rank, 1000);
    move();
    check(memory[999] == char(1 + rank), "memory of MPI_Alloc_mem comes along");
    MPI_Free_mem(memory);
}

void nothing(int) {
}

// What the process has in memory, in KiB.
long resident() {
    long all = 0, there = 0;
    FILE *file = std::fopen("/proc/self/statm", "r");
    check(file && std::fscanf(file, "%ld %ld", &all, &there) == 2, "what is in memory");
    std::fclose(file);
    return there * 4;
}

bool stays() {
    int process = where(), other = (process + 1) % processes;
    return MPIX_Migrate(other) == MPI_ERR_OTHER && where() == process;
}

void kept(const std::string &why) {
    if (why == "stream") {
        char *text;
        size_t size;
        FILE *file = open_memstream(&text, &size);
        check(stays(), "it stays with a stream in memory");
        std::fclose(file);
        move();
    } else if (why == "signal") {
        signal(SIGUSR2, nothing);
        MPI_Barrier(MPI_COMM_WORLD);
        // One rank of each process is the last one that has said so.
        int process = where(), other = (process + 1) % processes, error = MPIX_Migrate(other), all = error != MPI_SUCCESS, sum;
        MPI_Allreduce(&all, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        check(sum == processes, "one of each process stays");
        if (error)
            signal(SIGUSR2, SIG_DFL);
        move();
    } else if (why == "locale") {
        locale_t locale = newlocale(LC_ALL_MASK, "C.UTF-8", nullptr);
        check(locale && stays(), "it stays with a locale");
        freelocale(locale);
        locale = newlocale(LC_ALL_MASK, "C", nullptr);
        move();
    } else if (why == "global") {
        std::locale::global(std::locale(std::locale::classic(), new std::numpunct<char>));
        check(stays(), "it stays with a locale of the process");
        MPI_Barrier(MPI_COMM_WORLD);
        std::locale::global(std::locale::classic());
        MPI_Barrier(MPI_COMM_WORLD);
        move();
    } else if (why == "often") {
        long before = 0;
        for (int i = 0; i < 1600; i++) {
            if (i == 600)
                before = resident();
            move();
            if (i % 2)
                move();
        }
        check(resident() - before < 8000, "a process does not grow by moves");
    } else if (why == "load") {
        for (int i = 0; i < 4; i++) {
            double begin = MPI_Wtime(), load;
            while (rank == 0 && MPI_Wtime() - begin < 0.2)
                ;
            if (i % 2)
                move();
            MPI_Barrier(MPI_COMM_WORLD);
            MPIX_Get_load(&load);
            check(rank ? load < 0.15 : load >= 0.2 * (i + 1) && load < 0.2 * (i + 1) + 0.15, "who waits does not compute");
        }
    } else if (why == "waits") {
        if (rank)
            move();
        else
            MPI_Barrier(MPI_COMM_WORLD);
    } else if (why == "killed") {
        for (int i = 0;; i++) {
            if (i == 20 && where() == victim)
                kill(getpid(), SIGKILL);
            move();
        }
    } else if (why == "wide") {
        fwide(stdin, 1);
        check(stays(), "it stays with a wide stream");
    } else if (why == "own") {
        check(std::freopen("/dev/null", "w", stdout) != nullptr, "a stream of its own");
        check(stays(), "it stays with a stream of its own");
    } else {
        check(std::freopen(nullptr, "w", stdout) != nullptr, "the process's stream once more");
        for (int i = 0; i < 4; i++) {
            std::printf("%d\n", i);
            move();
        }
    }
}

void last(int status, void *of) {
    if (status == 0 && of == &rank) {
        std::printf("rank %d is good\n", rank);
        std::fflush(stdout);
    }
}

}  // namespace

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPIX_Process(nullptr, &processes);
    victim = argc > 2 ? std::atoi(argv[2]) : 0;
    if (argc > 1) {
        kept(argv[1]);
    } else {
        c_library();
        cxx_library();
        threads();
        mpi_memory();
    }
    on_exit(last, &rank);
    MPI_Finalize();
    return 0;
}
