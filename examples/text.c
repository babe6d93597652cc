/* A character model: an LSTM reads a short text letter by letter and learns to say which letter comes next; then it writes
 * by itself.
 *
 *     text [epochs]          with FACULA_SIM=cuda:1 it trains on a simulated GPU */
#include <facula.h>
#include <stdlib.h>
#include <string.h>

static const char TEXT[] = "the sun goes up, the sun goes down, the lamp is lit in every town. "
                           "the moon goes up, the moon goes down, and sleep walks softly through the town. ";
enum { HIDDEN = 64, STEPS = 24, BATCH = 16, LETTERS = 28 };

/* 'a' to 'z' are 0 to 25, then comma and full stop as one, then the space. */
static int number_of(char c) { return c >= 'a' && c <= 'z' ? c - 'a' : c == ' ' ? 27 : 26; }
static char letter_of(int64_t n) { return n < 26 ? (char)('a' + n) : n == 27 ? ' ' : '.'; }

typedef struct model {
    fa_module *embedding, *lstm, *head, *all;
} model;

static model make_model(fa_device device) {
    model m;
    m.embedding = fa_nn_embedding(LETTERS, 16);
    m.lstm = fa_nn_lstm(16, HIDDEN, .batch_first = true);
    m.head = fa_nn_linear(HIDDEN, LETTERS);
    m.all = fa_module_list(m.embedding, m.lstm, m.head); /* one owner for the optimizer, for moving and for saving */
    fa_module_to(m.all, device);
    return m;
}

/* letters [batch, steps] -> scores of the next one [batch * steps, LETTERS] */
static fa_tensor *predict(model m, fa_tensor *letters, fa_tensor *h0, fa_tensor *c0, fa_tensor **h, fa_tensor **c) {
    fa_tensor *y = fa_rnn_call(m.lstm, fa_call(m.embedding, letters), h0, c0, h, c);
    return fa_call(m.head, fa_reshape(y, FA_DIMS(-1, HIDDEN)));
}

/* Pieces of the text from random places, and the same one letter later. */
static void draw_batch(fa_device device, fa_tensor **in, fa_tensor **next) {
    int64_t a[BATCH * STEPS], b[BATCH * STEPS];
    const int length = (int)strlen(TEXT);
    for (int i = 0; i < BATCH; i++) {
        const int from = (int)fa_item(fa_randint(0, length, FA_DIMS(1)));
        for (int t = 0; t < STEPS; t++) {
            a[i * STEPS + t] = number_of(TEXT[(from + t) % length]);
            b[i * STEPS + t] = number_of(TEXT[(from + t + 1) % length]);
        }
    }
    *in = fa_from_data(a, FA_INT64, FA_DIMS(BATCH, STEPS), .device = device);
    *next = fa_from_data(b, FA_INT64, FA_DIMS(BATCH * STEPS), .device = device);
}

static void train(model m, fa_device device, int epochs) {
    fa_optimizer *optimizer = fa_adam(m.all, .lr = 0.01);
    for (int epoch = 0; epoch < epochs; epoch++) {
        FA_SCOPE;
        fa_tensor *in, *next;
        draw_batch(device, &in, &next);
        fa_tensor *loss = fa_cross_entropy(predict(m, in, NULL, NULL, NULL, NULL), next);
        fa_zero_grad(optimizer);
        fa_backward(loss);
        fa_step(optimizer);
        if (epoch % 20 == 0 || epoch == epochs - 1) printf("epoch %3d  loss %.1f\n", epoch, fa_item(loss));
    }
}

/* One letter at a time: the state after it is the state before the next one. */
static void write_text(model m, fa_device device, const char *begin, int letters) {
    FA_NO_GRAD;
    FA_SCOPE;
    fa_tensor *h = NULL, *c = NULL;
    const int given = (int)strlen(begin);
    int64_t letter = number_of(*begin);
    printf("%c", *begin);
    for (int i = 0; i < letters; i++) {
        fa_tensor *in = fa_from_data(&letter, FA_INT64, FA_DIMS(1, 1), .device = device);
        fa_tensor *scores = predict(m, in, h, c, &h, &c);
        letter = i + 1 < given ? number_of(begin[i + 1]) : (int64_t)fa_item(fa_argmax(scores));
        printf("%c", letter_of(letter));
        if (fa_failed()) return;
    }
    printf("\n");
}

int main(int argc, char **argv) {
    fa_device device = fa_try_accelerator(0);
    fa_manual_seed(1);
    model m = make_model(device);
    train(m, device, argc > 1 ? atoi(argv[1]) : 60);
    write_text(m, device, "the sun", 100);
    return fa_finish("text");
}
