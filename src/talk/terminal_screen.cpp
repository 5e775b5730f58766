#include "talk/terminal_screen.h"

#include <fmt/format.h>
#include <histedit.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cwchar>
#include <optional>
#include <utility>
#include <vector>

#include "talk/history.h"
#include "talk/markdown.h"
#include "talk/tools.h"
#include "toy/base/utf8.h"

namespace toy::talk {
namespace {

// What a handler may touch has to be global and lock-free.
std::atomic<bool> caught{false};
static_assert(std::atomic<bool>::is_always_lock_free);
extern "C" void on_sigint(int) { caught = true; }

constexpr int kHistory = 1000;
constexpr const wchar_t* kPasteEnd = L"\x1b[201~";  // what a terminal sends around what is pasted (bracketed paste)

void write_out(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

bool brackets_pastes() {
  const char* term = std::getenv("TERM");
  return term != nullptr && std::string_view(term) != "dumb";
}

// Of the terminal.
size_t columns() {
  winsize size = {};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string wrapped(const std::string& text) {
  WordWrap wrap(columns());
  std::string out = wrap.push(text);
  return out += wrap.finish();
}

// As keys that insert it: control characters, line breaks among them, after Ctrl-V.
std::string as_keys(const std::string& text) {
  std::string keys;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 32 || c == 127) keys += '\x16';
    keys += c;
  }
  return keys;
}

}  // namespace

struct TerminalScreen::Editor {
  EditLine* el = nullptr;
  History* past = nullptr;
  HistoryFile file;
  std::string prompt;
  bool interrupted = false;
  std::optional<AnswerView> view;  // of the answer that comes
  WordWrap wrap{0};                // of its lines
  bool shown = false;              // some of it
  struct sigaction before = {};

  explicit Editor(const std::string& history) : file(history) {
    el = el_init("toy", stdin, stdout, stderr);
    past = history_init();
    HistEvent event;
    ::history(past, &event, H_SETSIZE, kHistory);
    el_set(el, EL_CLIENTDATA, this);
    el_set(el, EL_PROMPT_ESC, shown_prompt, '\1');
    el_set(el, EL_HIST, ::history, past);
    el_set(el, EL_EDITOR, "emacs");
    el_set(el, EL_SIGNAL, 1);                      // it restores the terminal where a signal ends or stops the program
    el_set(el, EL_SETTY, "-x", "-echoctl", NULL);  // Ctrl-C while an answer comes is no text: no ^C
    el_set(el, EL_SETTY, "-d", "-isig", NULL);     // Ctrl-C and Ctrl-Z are keys while a line is edited
    el_set(el, EL_ADDFN, "toy-interrupt", "Discard the line", on_interrupt);
    el_set(el, EL_ADDFN, "toy-suspend", "Stop the program", on_suspend);
    el_set(el, EL_ADDFN, "toy-paste", "Insert what is pasted", on_paste);
    el_set(el, EL_ADDFN, "toy-complete", "Complete a command", on_complete);
    el_set(el, EL_BIND, "^I", "toy-complete", NULL);
    el_set(el, EL_BIND, "^R", "em-inc-search-prev", NULL);
    el_set(el, EL_BIND, "\x1b[1;5C", "em-next-word", NULL);
    el_set(el, EL_BIND, "\x1b[1;5D", "ed-prev-word", NULL);
    el_source(el, nullptr);  // the user's own ~/.editrc
    el_set(el, EL_BIND, "^C", "toy-interrupt", NULL);
    el_set(el, EL_BIND, "^Z", "toy-suspend", NULL);
    el_set(el, EL_BIND, "\x1b[200~", "toy-paste", NULL);
    for (const std::string& entry : file.entries()) remember(entry);
  }
  ~Editor() {
    el_end(el);
    history_end(past);
  }
  Editor(const Editor&) = delete;
  Editor& operator=(const Editor&) = delete;

  void remember(const std::string& entry) {
    HistEvent event;
    ::history(past, &event, H_ENTER, entry.c_str());
  }

  static Editor& of(EditLine* el) {
    void* self = nullptr;
    el_get(el, EL_CLIENTDATA, &self);
    return *static_cast<Editor*>(self);
  }
  static char* shown_prompt(EditLine* el) { return of(el).prompt.data(); }
  static unsigned char on_interrupt(EditLine* el, int) {
    of(el).interrupted = true;
    return CC_EOF;
  }
  static unsigned char on_suspend(EditLine*, int) {
    raise(SIGTSTP);
    return CC_REDISPLAY;
  }
  // What the commands have in common that begin with the text before the cursor; where that is nothing, it lists them.
  static unsigned char on_complete(EditLine* el, int) {
    const LineInfo* info = el_line(el);
    const std::string begun(info->buffer, info->cursor);
    std::vector<std::string> fitting;
    for (const std::string& name : Session::command_names())
      if (("/" + name).starts_with(begun)) fitting.push_back("/" + name);
    if (begun.empty() || fitting.empty()) return CC_ERROR;
    std::string common = fitting[0];
    for (const std::string& f : fitting)
      common.resize(size_t(std::mismatch(common.begin(), common.end(), f.begin(), f.end()).first - common.begin()));
    if (fitting.size() == 1) common += " ";
    if (common.size() > begun.size())
      return el_insertstr(el, common.c_str() + begun.size()) == 0 ? CC_REFRESH : CC_ERROR;
    write_out(fmt::format("\n{}\n", fmt::join(fitting, "  ")));
    return CC_REDISPLAY;
  }
  static unsigned char on_paste(EditLine* el, int) {
    std::wstring text;
    const std::wstring end = kPasteEnd;
    for (wchar_t c; !text.ends_with(end) && el_wgetc(el, &c) == 1;) text += c == L'\r' ? L'\n' : c;
    if (text.ends_with(end)) text.resize(text.size() - end.size());
    while (text.ends_with(L'\n')) text.pop_back();  // pasting is not sending
    return text.empty() || el_winsertstr(el, text.c_str()) == 0 ? CC_REFRESH : CC_ERROR;
  }
};

TerminalScreen::TerminalScreen(const Look& look, const std::string& history) : look_(look) {
  std::setlocale(LC_CTYPE, "");
  if (MB_CUR_MAX == 1 && std::string_view(std::setlocale(LC_CTYPE, nullptr)) == "C")
    std::setlocale(LC_CTYPE, "C.UTF-8");  // of containers without a locale: keys beyond ASCII would be lost
  editor_ = std::make_unique<Editor>(history);
  struct sigaction ours = {};
  ours.sa_handler = on_sigint;
  ours.sa_flags = SA_RESTART;
  sigemptyset(&ours.sa_mask);
  sigaction(SIGINT, &ours, &editor_->before);
  if (!editor_->file.warning().empty()) note(editor_->file.warning());
}

TerminalScreen::~TerminalScreen() {
  sigaction(SIGINT, &editor_->before, nullptr);
  editor_.reset();
  std::setlocale(LC_CTYPE, "C");
}

LineRead TerminalScreen::read_line(const std::string& prompt, const std::string& old) {
  Editor& e = *editor_;
  e.prompt = prompt;
  e.interrupted = false;
  if (!old.empty()) el_push(e.el, as_keys(old).c_str());
  el_set(e.el, EL_PREP_TERM, 1);  // before the prompt: whoever sees it may press any key
  if (brackets_pastes()) write_out("\x1b[?2004h");
  int count = 0;
  const char* text = el_gets(e.el, &count);
  if (brackets_pastes()) write_out("\x1b[?2004l");
  const LineInfo* info = el_line(e.el);
  if (e.interrupted) {
    write_out("\n");
    return {LineRead::interrupted, std::string(info->buffer, info->lastchar)};
  }
  if (text == nullptr || count <= 0) {
    write_out("\n");
    return {LineRead::end, {}};
  }
  std::string line(text, size_t(count));
  if (line.ends_with('\n')) line.pop_back();
  return {LineRead::text, line};
}

LineRead TerminalScreen::read(const std::string& mark, const std::string& old) {
  return read_line(look_.color ? "\1\x1b[1m\1" + mark + "\1\x1b[0m\1 " : mark + " ", old);
}

void TerminalScreen::remember(const std::string& message) {
  editor_->file.add(message);
  editor_->remember(message);
}

void TerminalScreen::begin_reply() {
  caught = false;
  editor_->shown = false;
  editor_->view.emplace(look_.color, look_.unicode);
  editor_->wrap = WordWrap(columns());
}

void TerminalScreen::show(const ReplyPart& part) {
  editor_->shown = true;
  write_out(editor_->wrap.push(editor_->view->push(part.text, part.thought)));
}

void TerminalScreen::end_reply(const Reply* reply, bool stats) {
  write_out(editor_->wrap.push(editor_->view->finish()));
  write_out(editor_->wrap.finish());
  editor_->view.reset();
  if (reply == nullptr) return write_out(editor_->shown ? "\n" : "");
  const std::string text = summary(*reply, stats);
  bool begun = editor_->shown;
  for (const std::string& call : shown_calls(reply->message))
    write_out((std::exchange(begun, true) ? "\n" : "") + printable(call));
  write_out("\n");
  if (!text.empty()) write_out((look_.color ? dimmed(wrapped(text)) : wrapped(text)) + "\n");
}

bool TerminalScreen::interrupted() { return caught; }

void TerminalScreen::print(const std::string& text) { write_out(wrapped(printable(text))); }

void TerminalScreen::note(const std::string& text) { write_out(wrapped("toy: " + printable(text)) + "\n"); }

bool TerminalScreen::confirm(const std::string& question) {
  const LineRead answer = read_line(question + " [y/N] ", {});
  return answer.kind == LineRead::text && (answer.line == "y" || answer.line == "Y" || answer.line == "yes");
}

std::string summary(const Reply& reply, bool stats) {
  std::vector<std::string> parts;
  if (stats) parts.push_back(fmt::format("{} token{}", reply.tokens, reply.tokens == 1 ? "" : "s"));
  if (stats && reply.tokens > 1 && reply.seconds > 0)
    parts.push_back(fmt::format("{:.1f} tokens/s", double(reply.tokens - 1) / reply.seconds));
  if (stats && reply.computed >= 0)
    parts.push_back(fmt::format("{} of {} prompt tokens computed", reply.computed, reply.prompt_tokens));
  if (reply.end == ReplyEnd::length) parts.emplace_back("stopped at the limit of tokens (-n, or the context)");
  if (reply.end == ReplyEnd::stopped) parts.emplace_back("stopped");
  return parts.empty() ? "" : fmt::format("[{}]", fmt::join(parts, ", "));
}

}  // namespace toy::talk
