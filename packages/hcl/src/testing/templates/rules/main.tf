data "coder_parameter" "cores" {
  name    = "cores"
  type    = "number"
  default = 4
  mutable = true
  validation {
    min       = 1
    max       = 16
    monotonic = "increasing"
    error     = "Choose {min} to {max}, not {value}"
  }
}

data "coder_parameter" "name" {
  name        = "name"
  description = "Lower case"
  default     = "abc"
  form_type   = "textarea"
  styling     = jsonencode({ placeholder = "name", mask_input = true, disabled = data.coder_parameter.cores.value == "1" })
  validation {
    regex = "^[a-z]+$"
    error = "Use lower case letters"
  }
}

data "coder_parameter" "debug" {
  name      = "debug"
  type      = "bool"
  default   = false
  form_type = "switch"
}

data "coder_parameter" "tools" {
  name      = "tools"
  type      = "list(string)"
  default   = jsonencode(["git"])
  form_type = "multi-select"
  option {
    name  = "Git"
    value = "git"
  }
  option {
    name  = "Make"
    value = "make"
  }
}

data "coder_parameter" "tags" {
  name      = "tags"
  type      = "list(string)"
  default   = "[]"
  form_type = "tag-select"
}

data "coder_parameter" "needed" {
  name  = "needed"
  order = -1
}

data "coder_parameter" "unfit" {
  name      = "unfit"
  type      = "bool"
  default   = "true"
  form_type = "slider"
}

data "coder_parameter" "hidden" {
  count     = tobool(data.coder_parameter.debug.value) ? 2 : 0
  name      = "hidden_${count.index}"
  default   = data.coder_parameter.cores.value
  ephemeral = true
  mutable   = true
}
