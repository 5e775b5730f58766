// toy new: a folder with a project that works.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "cli/command.h"
#include "cli/console.h"
#include "cli/help.h"
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
  check(!name.empty() && name.size() <= 64 && letter(name[0]) && std::all_of(name.begin(), name.end(), allowed),
        "the project's name is '{}'; use a letter, then up to 63 letters, digits, - and _", name);
  // Targets that CMake makes itself, and the package that the project looks for.
  for (const char* taken :
       {"all", "clean", "edit_cache", "help", "install", "package", "package_source", "rebuild_cache", "test", "toy"})
    check(!library || name != taken, "the project's name is '{}', which CMake or toy uses; choose another", name);
}

// This very program, for scripts that find no other.
std::string own_path() {
  std::error_code error;
  const fs::path path = fs::read_symlink("/proc/self/exe", error);
  return error ? "toy" : path.string();
}

// A folder that did not exist, and that is removed with its files unless it is kept.
class NewFolder {
 public:
  explicit NewFolder(fs::path path) : path_(std::move(path)) {
    std::error_code error;
    const bool made = fs::create_directory(path_, error);
    check(!error, "cannot make the folder '{}': {}", path_.string(), error.message());
    check(made, "'{}' exists, and nothing in it was changed; choose another name", path_.string());
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
  std::string where;
  bool library = false;

  void add(CLI::App& app) {
    app.add_option("path", where, "Folder to create; its last part is the project's name")
        ->required()
        ->check(folder_name());
    app.add_flag("--lib", library, "Create a C++ project with CMake that uses the installed library");
    app.footer(
        "Examples:\n"
        "  toy new mine && mine/train.sh && mine/generate.sh\n"
        "  toy new --lib projects/mine");
    app.callback([this] { run(); });
  }

  void run() const {
    fs::path path(where);
    if (!path.has_filename()) path = path.parent_path();  // of "mine/"
    const std::string name = path.filename().string();
    check_name(name, library);
    std::error_code error;
    const fs::path parent = path.parent_path();
    check(parent.empty() || fs::is_directory(parent, error), "there is no folder '{}'; create it first",
          parent.string());
    const fs::file_type there = fs::symlink_status(path, error).type();  // none: it cannot be told
    check(there == fs::file_type::not_found || there == fs::file_type::none,
          "'{}' exists, and nothing in it was changed; choose another name", path.string());
    NewFolder folder(path);
    std::string paths;
    for (const ProjectFile& f : library ? library_project(name) : training_project(name, own_path()))
      paths += folder.write(f) + "\n";
    folder.keep();
    fmt::print("{}", paths);
    to_stderr(library ? fmt::format("next: build it as {}/README.md says\n", path.string())
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
