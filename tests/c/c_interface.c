/* What the C interface gives, for c_interface_test.sh to compare with the program: c_interface MODEL CORPUS OUT TEXT-FILE. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <toy/c/toy.h>

static void require(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "c_interface: %s: %s\n", what, toy_last_error());
  exit(1);
}

static void refused(toy_status status, const char* part, const char* what) {
  if (status == TOY_BAD_INPUT && strstr(toy_last_error(), part)) return;
  fprintf(stderr, "c_interface: %s: status %d, '%s'\n", what, status, toy_last_error());
  exit(1);
}

static int count_steps(void* user, const char* json) {
  if (strstr(json, "\"kind\":\"step\"")) ++*(int*)user;
  return 0;
}

static int after_two(void* user, const char* json) {
  count_steps(user, json);
  return *(int*)user >= 2;
}

static int first_piece(void* user, const char* piece) {
  strncat(user, piece, 60);
  return 1;
}

static void check_texts(toy_model* model) {
  char *text = NULL, *chat = NULL, piece[64] = "";
  const char* next = NULL;
  toy_text* run = NULL;
  int32_t *ids = NULL, id = 0;
  size_t count = 0;
  double logprob = 0;
  require(toy_generate(model, "Once there was", "{\"max_tokens\": 40, \"temperature\": 0.9, \"seed\": 7}", NULL, NULL,
                       &text) == TOY_OK, "generate");
  printf("text %s\n", text);
  require(toy_generate(model, "Once there was", "{\"max_tokens\": 40}", first_piece, piece, NULL) == TOY_STOPPED,
          "a callback that stops");
  require(piece[0] != 0, "the piece that a callback sees");
  require(toy_encode(model, "Once there was", 1, &ids, &count) == TOY_OK, "encode");
  require(toy_text_begin(model, ids, count, "{\"max_tokens\": 3, \"logprobs\": true}", &run) == TOY_OK, "begin");
  printf("stream");
  while (toy_text_next(run, &id, &logprob, &next) == TOY_OK && next) printf(" %d:%.17g", (int)id, logprob);
  printf("\n");
  toy_text_free(run);
  require(toy_chat(model, "[{\"role\": \"user\", \"content\": \"Hi\"}]",
                   "{\"chat_template\": \"plain\", \"max_tokens\": 5, \"temperature\": 0}", NULL, NULL, &chat) == TOY_OK,
          "chat");
  require(strstr(chat, "\"role\":\"assistant\"") != NULL, "the message of a chat");
  toy_free(text), toy_free(chat), toy_free(ids);
}

static void check_numbers(toy_model* model, const char* path) {
  static char text[4000];
  char* json = NULL;
  double* logprobs = NULL;
  float *logits = NULL, *values = NULL;
  size_t count = 0, vocabulary = 0, i;
  toy_tensor_view view;
  const int32_t ids[3] = {1, 2, 3};
  FILE* file = fopen(path, "rb");
  require(file != NULL, path);
  text[fread(text, 1, sizeof text - 1, file)] = 0;
  fclose(file);
  require(toy_score(model, text, NULL, &json, &logprobs, &count) == TOY_OK, "score");
  printf("score %s\n", json);
  require(toy_logits(model, ids, 3, NULL, &logits, &vocabulary) == TOY_OK && vocabulary == 300, "logits");
  require(toy_tensor(model, "token_embd.weight", &view) == TOY_OK, "tensor");
  require(view.rank == 2 && view.shape[0] == 300 && view.shape[1] == 64 && strcmp(view.dtype, "f32") == 0 &&
              view.bytes == 300 * 64 * 4, "a tensor's view");
  require(toy_dequantize(model, "token_embd.weight", &values, &i) == TOY_OK && i == 300 * 64 &&
              memcmp(values, view.data, view.bytes) == 0, "dequantize");
  toy_free(json), toy_free(logprobs), toy_free(logits), toy_free(values);
}

static void check_errors(toy_model* model) {
  char* text = NULL;
  toy_model* none = NULL;
  const int32_t outside = 300;
  toy_text* run = NULL;
  char long_name[3000];
  memset(long_name, 'a', sizeof long_name);
  long_name[sizeof long_name - 1] = 0;
  refused(toy_load(long_name, NULL, &none), "", "a name that is too long");
  refused(toy_load("/nonexistent.gguf", NULL, &none), "no such file", "a missing file");
  refused(toy_load(NULL, NULL, &none), "NULL", "no file");
  require(none == NULL, "a model that is none");
  refused(toy_generate(model, "x", "{\"temprature\": 1}", NULL, NULL, &text), "did you mean 'temperature'", "an option");
  refused(toy_generate(model, "x", "[1]", NULL, NULL, &text), "object", "options that are none");
  refused(toy_generate(model, "x", "{", NULL, NULL, &text), "column 2", "options that are no JSON");
  refused(toy_generate(model, "x", "{\"stop\": \"\xff\"}", NULL, NULL, &text), "\xef\xbf\xbd", "bytes that are no UTF-8");
  refused(toy_generate(NULL, "x", NULL, NULL, NULL, &text), "NULL", "no model");
  refused(toy_text_begin(model, &outside, 1, NULL, &run), "outside the vocabulary", "an id");
  refused(toy_train("lora", "{\"modle\": \"a\"}", NULL, NULL, NULL), "model", "an option of a recipe");
  toy_model_free(NULL), toy_free(NULL), toy_text_free(NULL);
}

int main(int argc, char** argv) {
  char options[2000], *result = NULL;
  int steps = 0;
  toy_model* model = NULL;
  require(argc == 5 && toy_abi() == TOY_ABI, "usage");
  sprintf(options, "{\"corpus\": \"%s\", \"size\": \"tiny\", \"tokenizer\": \"spm:300\", \"steps\": 12, \"batch\": 2, "
          "\"tokens\": 64, \"out\": \"%s\"}", argv[2], argv[3]);
  require(toy_train("from-scratch", options, after_two, &steps, &result) == TOY_STOPPED && steps == 2, "a run that is stopped");
  require(strstr(result, "\"end\":\"stopped\"") != NULL, result);
  toy_free(result);
  strcpy(options + strlen(options) - 1, ", \"resume\": true}");
  steps = 0;
  require(toy_train("from-scratch", options, count_steps, &steps, NULL) == TOY_OK && steps == 10, "a run that is resumed");
  require(toy_load(argv[1], "{\"threads\": 2}", &model) == TOY_OK, "load");
  check_texts(model);
  check_numbers(model, argv[4]);
  check_errors(model);
  toy_model_free(model);
  return 0;
}
