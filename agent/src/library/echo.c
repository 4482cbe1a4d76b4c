/* A module for tests: each function of the table does something that can be seen from outside. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "starfarm_module.h"

static int alive;

struct echo {
    const struct starfarm_host *host;
    uint32_t out;
    char mode[32];
};

static void *create(const struct starfarm_host *host)
{
    struct echo *echo = calloc(1, sizeof *echo);
    echo->host = host;
    alive++;
    /* Nobody asks it anything yet. */
    host->wait_for_wave();
    host->not_taken(1);
    if (host->emit(0, "", 0) != -1 || host->now_us() != 0)
        abort();
    return echo;
}

static void destroy(void *stage)
{
    alive--;
    free(stage);
}

static int edge_made(void *stage, const struct starfarm_hook *hook, char *why, size_t why_bytes)
{
    struct echo *echo = stage;
    if (hook->side == STARFARM_INPUT)
        return strcmp(hook->name, "silent") ? 0 : 1;
    if (strcmp(hook->name, "bad")) {
        echo->out = hook->port;
        return 0;
    }
    snprintf(why, why_bytes, "there is no `%s`\n", hook->name);
    return 1;
}

static void edge_gone(void *stage, const struct starfarm_hook *hook)
{
    struct echo *echo = stage;
    snprintf(echo->mode, sizeof echo->mode, "no %s", hook->name);
}

static int set(void *stage, const char *key, const char *value, char *why, size_t why_bytes)
{
    struct echo *echo = stage;
    if (strcmp(key, "mode")) {
        memset(why, 'x', why_bytes);
        return 1;
    }
    snprintf(echo->mode, sizeof echo->mode, "%s", value);
    return 0;
}

/* Each value comes back with the next id. */
static void data(void *stage, uint32_t input, const void *triples, size_t bytes)
{
    struct echo *echo = stage;
    unsigned char room[4096];
    struct starfarm_message message = { room, 0, sizeof room };
    struct starfarm_triple triple;
    (void)input;
    for (size_t at = 0; starfarm_next(triples, bytes, &at, &triple);)
        starfarm_put(&message, triple.id + 1, triple.value, triple.bytes);
    echo->host->emit(echo->out, message.bytes, message.used);
}

static void *elsewhere(void *stage)
{
    struct echo *echo = stage;
    echo->host->not_taken(1000);
    return (void *)(intptr_t)echo->host->emit(echo->out, "", 0);
}

static void fired(void *stage, const char *const *timers, size_t count)
{
    struct echo *echo = stage;
    static char many[2 << 20];
    unsigned char room[4096];
    struct starfarm_message message = { room, 0, sizeof room };
    int answer = 0;
    if (!strcmp(echo->mode, "malformed"))
        answer = echo->host->emit(echo->out, "\x01\x09x", 3);
    else if (!strcmp(echo->mode, "null"))
        answer = echo->host->emit(echo->out, NULL, 3);
    else if (!strcmp(echo->mode, "long"))
        answer = echo->host->emit(echo->out, many, sizeof many);
    else if (!strcmp(echo->mode, "triples"))
        answer = echo->host->emit(echo->out, many, 2 * 5000);
    else if (!strcmp(echo->mode, "elsewhere"))
        answer = echo->host->emit(echo->out + 1, "", 0);
    else if (!strcmp(echo->mode, "flood"))
        for (int each = 0; each < 10000; each++)
            answer += echo->host->emit(echo->out, "\x01\x01x", 3);
    else if (!strcmp(echo->mode, "thread")) {
        pthread_t thread;
        void *said;
        pthread_create(&thread, NULL, elsewhere, echo);
        pthread_join(thread, &said);
        answer = (int)(intptr_t)said;
    } else if (!strcmp(echo->mode, "wave"))
        echo->host->wait_for_wave();
    else if (!strcmp(echo->mode, "crash"))
        abort();
    if (!strcmp(echo->mode, "say"))
        for (int each = 0; each < 100; each++)
            echo->host->say("line\nline");
    echo->host->not_taken(100);
    for (size_t at = 0; at < count; at++)
        starfarm_put(&message, 1, timers[at], strlen(timers[at]));
    starfarm_put_number(&message, 2, (uint64_t)alive);
    starfarm_put_number(&message, 3, echo->host->now_us());
    starfarm_put_number(&message, 4, (uint64_t)-answer);
    starfarm_put(&message, 5, echo->mode, strlen(echo->mode));
    starfarm_put_named(&message, "echo.value", -1.5);
    echo->host->emit(echo->out, message.bytes, message.used);
}

static void wave_is_over(void *stage)
{
    struct echo *echo = stage;
    echo->host->emit(echo->out, "\x09\x00", 2);
}

static void *no_create(const struct starfarm_host *host)
{
    (void)host;
    return NULL;
}

static const struct starfarm_type types[] = {
    { "echo", create, destroy, edge_made, edge_gone, data, set, fired, wave_is_over },
    { .name = "plain", .create = create },
    { .name = "none", .create = no_create, .destroy = destroy, .fired = fired },
};

const struct starfarm_table *starfarm_module(void)
{
    static const struct starfarm_table table = { STARFARM_MODULE_VERSION, 3, "echo", types };
    return &table;
}
