// The first token after the ids 1, 2, 3 with libllama, as a whole process: the peer of bench/first_token.py.
//   cc -O2 -I SITE/include first_token.c -L SITE/llama_cpp/lib -lllama -Wl,-rpath,SITE/llama_cpp/lib -o first_token
#include <llama.h>
#include <stdio.h>
static void quiet(enum ggml_log_level l, const char* t, void* u) { (void)l; (void)t; (void)u; }
int main(int c, char** v) {
  llama_log_set(quiet, 0);
  llama_backend_init();
  struct llama_model_params mp = llama_model_default_params();
  mp.n_gpu_layers = 0;
  struct llama_model* m = llama_model_load_from_file(v[1], mp);
  struct llama_context_params cp = llama_context_default_params();
  cp.n_ctx = 64, cp.n_threads = cp.n_threads_batch = 2;
  struct llama_context* x = llama_init_from_model(m, cp);
  struct llama_batch b = llama_batch_init(8, 0, 1);
  b.n_tokens = 3;
  for (int i = 0; i < 3; ++i) b.token[i] = i + 1, b.pos[i] = i, b.n_seq_id[i] = 1, b.seq_id[i][0] = 0, b.logits[i] = i == 2;
  if (llama_decode(x, b)) return 1;
  const float* l = llama_get_logits_ith(x, -1);
  int best = 0, n = llama_vocab_n_tokens(llama_model_get_vocab(m));
  for (int i = 1; i < n; ++i) if (l[i] > l[best]) best = i;
  printf("%d\n", best); fflush(stdout);
  return 0;
}
