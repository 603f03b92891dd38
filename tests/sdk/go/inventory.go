// The public methods of the SDK, read from its own source.

package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"

	sb "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

// inventory is every public function and method, by the names that nameOf gives them. What only a
// later version has is among them, and fails the run until a check proves it.
func inventory() []string {
	// Where the compiler has found the SDK, in the cache of modules.
	entry := reflect.ValueOf(sb.NewClient).Pointer()
	file, _ := runtime.FuncForPC(entry).FileLine(entry)
	home := filepath.Dir(file)
	methods := methodsOf("azservicebus", home)
	names := slices.Concat(methods.public, methodsOf("admin", filepath.Join(home, "admin")).public)
	// Types that users know by an alias, such as Error, have their methods elsewhere.
	for _, name := range methodsOf("exported", filepath.Join(home, "internal/exported")).public {
		if kind, _, _ := strings.Cut(name, "."); methods.aliases[kind] {
			names = append(names, name)
		}
	}
	return names
}

type PackageMethods struct {
	public []string
	// Names of types that are declared in `internal/exported`.
	aliases map[string]bool
}

// methodsOf reads the package of that name in the directory.
func methodsOf(home, directory string) PackageMethods {
	found := PackageMethods{aliases: map[string]bool{}}
	files := got(filepath.Glob(filepath.Join(directory, "*.go")))
	holds(len(files) > 0, "%s has no source of the SDK", directory)
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		for _, declared := range got(parser.ParseFile(token.NewFileSet(), path, nil, 0)).Decls {
			switch declared := declared.(type) {
			case *ast.FuncDecl:
				if name := publicName(home, declared); name != "" {
					found.public = append(found.public, name)
				}
			case *ast.GenDecl:
				for _, spec := range declared.Specs {
					if kind, isType := spec.(*ast.TypeSpec); isType && kind.Assign.IsValid() {
						found.aliases[kind.Name.Name] = true
					}
				}
			}
		}
	}
	slices.Sort(found.public)
	return found
}

func publicName(home string, function *ast.FuncDecl) string {
	name := function.Name.Name
	if !ast.IsExported(name) {
		return ""
	}
	if function.Recv == nil {
		return home + "." + name
	}
	of := function.Recv.List[0].Type
	if pointer, isPointer := of.(*ast.StarExpr); isPointer {
		of = pointer.X
	}
	kind, isNamed := of.(*ast.Ident)
	if !isNamed || !ast.IsExported(kind.Name) {
		return ""
	}
	return methodName(home, kind.Name, name)
}
