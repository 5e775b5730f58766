// toy new: a folder with a project that works at once.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "cli/command.h"
#include "cli/console.h"
#include "cli/scaffold.h"
#include "toy/base/atomic_file.h"
#include "toy/base/error.h"

namespace toy::cli {
namespace {

namespace fs = std::filesystem;

// The name is a folder, a name in JSON and, of a library project, a target of CMake.
void check_name(const std::string& name, bool library) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const auto allowed = [&](char c) { return letter(c) || (c >= '0' && c <= '9') || c == '-' || c == '_'; };
  check(name.find('/') == std::string::npos,
        "name '{}' has a slash; give the name alone, and the folder that the project goes into with --in", name);
  check(!name.empty() && name.size() <= 64 && letter(name[0]) && std::all_of(name.begin(), name.end(), allowed),
        "name '{}' cannot be used; a name begins with a letter, goes on with letters, digits, - and _, and has 1 to 64 "
        "of them",
        name);
  // Targets that CMake makes itself, and the package that the project looks for.
  for (const char* taken :
       {"all", "clean", "edit_cache", "help", "install", "package", "package_source", "rebuild_cache", "test", "toy"})
    check(!library || name != taken, "name '{}' is taken by CMake or by toy itself; choose another one", name);
}

// This very program, for scripts that find no other.
std::string own_path() {
  std::error_code error;
  const fs::path path = fs::read_symlink("/proc/self/exe", error);
  return error ? "toy" : path.string();
}

// A folder that did not exist, and that goes away with all in it unless it is kept.
class NewFolder {
 public:
  explicit NewFolder(fs::path path) : path_(std::move(path)) {
    std::error_code error;
    const bool made = fs::create_directory(path_, error);
    check(!error, "cannot make the folder '{}': {}", path_.string(), error.message());
    check(made, "'{}' is there already, and nothing in it was changed; choose another name", path_.string());
  }
  ~NewFolder() {
    std::error_code ignored;
    if (!kept_) fs::remove_all(path_, ignored);
  }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;
  std::string write(const ProjectFile& f) const {
    const fs::path path = path_ / f.path;
    AtomicFile file(path.string());
    file.write(f.text);
    file.commit();
    const auto execute = fs::perms::owner_exec | fs::perms::group_exec | fs::perms::others_exec;
    if (f.executable) fs::permissions(path, execute, fs::perm_options::add);
    return path.string();
  }
  void keep() { kept_ = true; }

 private:
  fs::path path_;
  bool kept_ = false;
};

struct New {
  std::string name, in = ".";
  bool library = false;

  void add(CLI::App& app) {
    app.add_option("name", name, "of the project and its folder, which must not be there yet: letters, digits, - and _")
        ->required();
    app.add_option("--in", in, "folder that the project's own goes into")->capture_default_str();
    app.add_flag("--lib", library, "a CMake project in C++ that uses the installed library");
    app.footer(
        "\nstdout has the paths of the files.\n"
        "\nExamples:\n"
        "  toy new mine && mine/train.sh && mine/generate.sh\n"
        "  toy new --lib mine && cmake -S mine -B mine/build -G Ninja && cmake --build mine/build && mine/build/mine");
    app.callback([this] { run(); });
  }

  void run() const {
    check_name(name, library);
    std::error_code error;
    check(fs::is_directory(in, error), "in: there is no folder '{}'", in);
    const fs::path path = in == "." ? fs::path(name) : fs::path(in) / name;
    const fs::file_type there = fs::symlink_status(path, error).type();  // none: it cannot be told
    check(there == fs::file_type::not_found || there == fs::file_type::none,
          "'{}' is there already, and nothing in it was changed; choose another name", path.string());
    NewFolder folder(path);
    std::string paths;
    for (const ProjectFile& f : library ? library_project(name) : training_project(name, own_path()))
      paths += folder.write(f) + "\n";
    folder.keep();
    fmt::print("{}", paths);
    to_stderr(library ? fmt::format("next: {}/README.md says how it is built\n", path.string())
                      : fmt::format("next: {}/train.sh\n", path.string()));
  }
};

}  // namespace

void add_new(CLI::App& app) {
  auto command = std::make_shared<New>();
  command->add(app);
  app.parse_complete_callback([command] {});
}

}  // namespace toy::cli
