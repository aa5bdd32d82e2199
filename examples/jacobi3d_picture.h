// SPDX-License-Identifier: BSD-3-Clause
//
// What jacobi3d draws: the residual over the iterations, and the slice through the middle of the cube.
#ifndef EXAMPLES_JACOBI3D_PICTURE_H
#define EXAMPLES_JACOBI3D_PICTURE_H

#include <math.h>
#include <stdbool.h>
#include <stdio.h>

enum {
    SIZE = 300,
    MARGIN = 50,
    POINTS = 75
};  // of a part; POINTS: the slice's, at most, along an edge

// draw_curve draws residuals on a logarithmic scale, from the largest at the top to the smallest.
static void draw_curve(FILE *file, const double *residuals, int count) {
    double most = residuals[0], least = residuals[0];
    for (int i = 1; i < count; i++) {
        most = fmax(most, residuals[i]);
        least = fmin(least, residuals[i]);
    }
    fprintf(file,
            "<text x='%d' y='30'>residual, %d iterations</text>\n"
            "<text x='4' y='%d'>%.0e</text>\n<text x='4' y='%d'>%.0e</text>\n"
            "<rect x='%d' y='%d' width='%d' height='%d' fill='none' stroke='#999'/>\n"
            "<polyline fill='none' stroke='#2a6fb0' stroke-width='2' points='",
            MARGIN, count, MARGIN + 8, most, MARGIN + SIZE, least, MARGIN, MARGIN, SIZE, SIZE);
    double range = most > least && least > 0 ? log(most / least) : 1;
    for (int i = 0; i < count; i++) {
        double down = residuals[i] > 0 ? log(most / residuals[i]) / range : 1;
        fprintf(file, "%.1f,%.1f ", MARGIN + (double)SIZE * i / (count > 1 ? count - 1 : 1),
                MARGIN + SIZE * fmin(down, 1));
    }
    fprintf(file, "'/>\n");
}

// draw_slice draws a square of edge x edge temperatures from 0 (white) to 1 (red); row x, of which x = 0 is at the left.
static void draw_slice(FILE *file, const double *slice, int edge) {
    int points = edge < POINTS ? edge : POINTS, left = SIZE + 2 * MARGIN;
    double step = (double)SIZE / points;
    fprintf(file, "<text x='%d' y='30'>temperature at z = %d of %d</text>\n", left, edge / 2, edge);
    for (int x = 0; x < points; x++)
        for (int y = 0; y < points; y++) {
            double t =
                slice[(size_t)(x * edge / points) * (size_t)edge + (size_t)(y * edge / points)];
            fprintf(file,
                    "<rect x='%.1f' y='%.1f' width='%.1f' height='%.1f' "
                    "fill='rgb(255,%d,%d)'/>\n",
                    left + x * step, MARGIN + y * step, step + 0.5, step + 0.5,
                    (int)(255 * (1 - t)), (int)(255 * (1 - sqrt(t))));
        }
}

// draw writes both into a file, or returns false.
static bool draw(const char *path, const double *residuals, int count, const double *slice,
                 int edge) {
    FILE *file = fopen(path, "w");
    if (!file)
        return false;
    fprintf(file,
            "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' "
            "font-family='sans-serif' font-size='12'>\n"
            "<rect width='100%%' height='100%%' fill='white'/>\n",
            2 * SIZE + 3 * MARGIN, SIZE + 2 * MARGIN);
    draw_curve(file, residuals, count);
    draw_slice(file, slice, edge);
    fprintf(file, "</svg>\n");
    bool written = !ferror(file);
    return fclose(file) == 0 && written;
}

#endif
