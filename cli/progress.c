/* The progress bar of a training. On a terminal one line is rewritten, at most 20 times a second; in a file or a pipe each epoch
 * is one line. */
#include "cli.h"
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CELLS = 24 };

double cli_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void cli_progress_begin(cli_progress *progress, int epochs, int64_t total)
{
    *progress = (cli_progress){.total = total, .epochs = epochs, .terminal = isatty(STDOUT_FILENO)};
}

void cli_progress_show(cli_progress *progress, int epoch, int64_t step, double loss, double accuracy)
{
    const bool epoch_ends = step == progress->total;
    const double now = cli_seconds();
    if (!epoch_ends && (!progress->terminal || now - progress->last_shown < 0.05)) return;
    progress->last_shown = now;
    const int64_t done = (epoch - 1) * progress->total + step, all = progress->epochs * progress->total;
    char bar[CELLS + 1];
    for (int i = 0; i < CELLS; i++) bar[i] = i < done * CELLS / all ? '#' : '-';
    bar[CELLS] = 0;
    if (progress->terminal) printf("\r");
    printf("epoch %2d/%d [%s] loss %.4f  accuracy %5.1f %%", epoch, progress->epochs, bar, loss, 100 * accuracy);
    printf(progress->terminal ? "\033[K" : "\n"); /* wipes what an older, longer line left */
    fflush(stdout);
}

void cli_progress_end(cli_progress *progress)
{
    if (progress->terminal) printf("\n");
}
