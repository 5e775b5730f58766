/* toy from any language: a C interface that stays the same within a major version of the library (libtoy.so.0).
 *
 *     toy_model *model = NULL;
 *     char *text = NULL;
 *     if (toy_load("model.gguf", NULL, &model) != TOY_OK ||
 *         toy_generate(model, "Once", "{\"max_tokens\": 60, \"seed\": 1}", NULL, NULL, &text) != TOY_OK)
 *       fprintf(stderr, "%s\n", toy_last_error());
 *     toy_free(text);
 *     toy_model_free(model);
 *
 * Functions return a status. Results come through pointers, which are set only where it is TOY_OK. Options are JSON
 * objects with the names of the command line, underscores for hyphens; NULL and "" are {}. Texts are UTF-8 and end with
 * '\0'; a text that is generated may have any bytes but '\0', which become U+FFFD. Threads may share a model: what they
 * compute takes turns. A callback must not use the model that calls it; it gets TOY_BAD_INPUT there.
 */
#ifndef TOY_C_TOY_H
#define TOY_C_TOY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(TOY_BUILDS_LIBRARY)
#define TOY_API __attribute__((visibility("default")))
#else
#define TOY_API
#endif

/* The interface that this header describes. */
#define TOY_ABI 0

/* Statuses: the program's exit codes, and TOY_STOPPED where a callback ended a computation. */
typedef enum toy_status { TOY_OK = 0, TOY_FAILURE = 1, TOY_BAD_INPUT = 2, TOY_STOPPED = 3 } toy_status;

/* A model in memory. */
typedef struct toy_model toy_model;
/* A text that is generated token by token. */
typedef struct toy_text toy_text;

/* The interface of the library that is loaded; refuse one that is not TOY_ABI. */
TOY_API int toy_abi(void);
/* The version of the library, such as "0.1.0". */
TOY_API const char* toy_version(void);
/* Why the latest call of this thread did not return TOY_OK: what is wrong and what to do, in UTF-8. Valid until its
   next call. */
TOY_API const char* toy_last_error(void);
/* Frees what a function has given through a pointer to char, int32_t, float or double. NULL is fine. */
TOY_API void toy_free(void* memory);

/* The options of a call as a JSON list: name, help, type, takes, default. `call` is load, generate, chat, score, logits
 * or a recipe of `toy train`. */
TOY_API toy_status toy_options(const char* call, char** json);

/* Loads a model: a file, the folder or id of a run, a folder from Hugging Face, or a name of `toy list`. */
TOY_API toy_status toy_load(const char* model, const char* options, toy_model** out);
/* Frees a model, once no text and no tensor view of it is in use. NULL is fine. */
TOY_API void toy_model_free(toy_model* model);
/* Its dimensions, as a JSON object. */
TOY_API toy_status toy_spec(const toy_model* model, char** json);

/* Token ids of a text. `as_prompt`: as prompts begin, with names of control tokens as these tokens. */
TOY_API toy_status toy_encode(const toy_model* model, const char* text, int as_prompt, int32_t** ids, size_t* count);
/* The bytes of token ids, with a '\0' after them that `size` does not count. */
TOY_API toy_status toy_decode(const toy_model* model, const int32_t* ids, size_t count, char** bytes, size_t* size);

/* Sees a piece of a text; a result other than 0 ends the text. */
typedef int (*toy_on_text)(void* user, const char* piece);
/* Continues a prompt as `toy infer` does. `on_text` may be NULL. `text` may be NULL where on_text sees it. With
 * TOY_STOPPED `text` is set as well, to what there is. */
TOY_API toy_status toy_generate(toy_model* model, const char* prompt, const char* options, toy_on_text on_text,
                                void* user, char** text);
/* Answers messages, a JSON list as OpenAI's API has them, as `toy chat` does. `message` is the answer as JSON. */
TOY_API toy_status toy_chat(toy_model* model, const char* messages, const char* options, toy_on_text on_text,
                            void* user, char** message);

/* The same as toy_generate(), token by token. */
TOY_API toy_status toy_text_begin(toy_model* model, const int32_t* prompt, size_t count, const char* options,
                                  toy_text** out);
/* The next token. `piece` is what it adds, valid until the next call on this text, and NULL after the last token. `id`
 * and `logprob` may be NULL; a last piece without a token has the id -1. */
TOY_API toy_status toy_text_next(toy_text* text, int32_t* id, double* logprob, const char** piece);
TOY_API void toy_text_free(toy_text* text);

/* How well the model predicts a text: a JSON object as `toy eval --json` has it. `logprobs` (may be NULL): of its
 * tokens, `count` numbers. */
TOY_API toy_status toy_score(toy_model* model, const char* text, const char* options, char** json, double** logprobs,
                             size_t* count);
/* Logits after each token: count rows of `vocabulary` numbers. */
TOY_API toy_status toy_logits(toy_model* model, const int32_t* ids, size_t count, const char* options, float** logits,
                              size_t* vocabulary);

/** A tensor where the model has it. Read-only, row-major, outermost dimension first. */
typedef struct toy_tensor_view {
  const void* data;
  const char* dtype; /* "f32", "f16", "bf16", "q8_0", ... */
  int rank;
  int64_t shape[8];
  size_t bytes;
} toy_tensor_view;
/* The names of all tensors, as a JSON list. */
TOY_API toy_status toy_tensors(const toy_model* model, char** json);
/* Valid as long as the model. The device must be one whose memory the host reads, as the CPU is. */
TOY_API toy_status toy_tensor(const toy_model* model, const char* name, toy_tensor_view* view);
/* Its values as float, of any dtype and device: `count` numbers. */
TOY_API toy_status toy_dequantize(const toy_model* model, const char* name, float** values, size_t* count);

/* Sees a line of a run's log, as JSON; a result other than 0 ends the run after its step, with a checkpoint. */
typedef int (*toy_on_event)(void* user, const char* json);
/* Runs a recipe of `toy train`, such as "from-scratch". `on_event` may be NULL. `result` (may be NULL) is a JSON
 * object: out, model, checkpoint, step, loss, seconds, end. TOY_STOPPED: on_event has ended it; `result` is set. */
TOY_API toy_status toy_train(const char* recipe, const char* options, toy_on_event on_event, void* user, char** result);

#ifdef __cplusplus
}
#endif

#endif
